"""Operators on grey levels, each pixel for itself: brightness, contrast, gamma."""

from __future__ import annotations

import torch

from diffgen.gan_training.augmentation import BRIGHTNESS_PERCENT
from diffgen.sources.operators.base import Axis, Operator, Range, Scene, Strengths, column, to_bytes


def _around_one(share: float) -> Range:
    return Range(1 - share, 1.0, 1 + share)


def _brighten(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    return to_bytes(images * column(strengths, "factor"))


def _contrast(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    # whole numbers are summed without rounding, in whatever order
    mean = images.sum(dim=(1, 2, 3), keepdim=True, dtype=torch.int64).to(torch.float64) / images[0].numel()
    return to_bytes((images - mean) * column(strengths, "factor") + mean)


def _gamma(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    return to_bytes(255 * (images.to(torch.float64) / 255) ** column(strengths, "exponent"))


OPERATORS = {
    "brightness": Operator((Axis("factor", _around_one(BRIGHTNESS_PERCENT / 100), Range(0.3, 1, 2)),), _brighten),
    "contrast": Operator((Axis("factor", _around_one(0.3), Range(0.3, 1, 2)),), _contrast),
    "gamma": Operator((Axis("exponent", Range(0.7, 1, 1.4), Range(0.3, 1, 3)),), _gamma),
}
