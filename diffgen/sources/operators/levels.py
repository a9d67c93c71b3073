"""Operators on the light and colour of each pixel: brightness, contrast, gamma, a slope of light, tint, saturation."""

from __future__ import annotations

import torch

from diffgen.gan_training.augmentation import BRIGHTNESS_PERCENT
from diffgen.sources.operators.base import Axis, Operator, Range, Scene, Strengths, column, to_bytes

_LUMA = (0.299, 0.587, 0.114)  # of red, green and blue, as ITU-R BT.601 has them


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


def _shade(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    """Light that falls from one side."""
    height, width = images.shape[-2:]
    across = (torch.arange(width, dtype=torch.float64) * 2 - (width - 1)) / width
    down = (torch.arange(height, dtype=torch.float64) * 2 - (height - 1)) / height
    slope = column(strengths, "right") * across + column(strengths, "down") * down[:, None]
    return to_bytes(images * (1 + slope))


def _tint(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    """Another white balance."""
    warmer, greener = column(strengths, "warmer"), column(strengths, "greener")
    return to_bytes(images * torch.cat([1 + warmer, 1 + greener, 1 - warmer], dim=1))


def _saturate(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    pixels = images.to(torch.float64)
    grey = (pixels * torch.tensor(_LUMA, dtype=torch.float64)[:, None, None]).sum(dim=1, keepdim=True)
    factor = column(strengths, "factor")
    return to_bytes(pixels * factor + grey * (1 - factor))


OPERATORS = {
    "brightness": Operator((Axis("factor", _around_one(BRIGHTNESS_PERCENT / 100), Range(0.3, 1, 2)),), _brighten),
    "contrast": Operator((Axis("factor", _around_one(0.3), Range(0.3, 1, 2)),), _contrast),
    "shade": Operator(
        (
            Axis("right", Range(-0.3, 0, 0.3), Range(-0.7, 0, 0.7)),
            Axis("down", Range(-0.3, 0, 0.3), Range(-0.7, 0, 0.7)),
        ),
        _shade,
        photographic=True,
    ),
    "tint": Operator(
        (
            Axis("warmer", Range(-0.15, 0, 0.15), Range(-0.4, 0, 0.4)),
            Axis("greener", Range(-0.1, 0, 0.1), Range(-0.25, 0, 0.25)),
        ),
        _tint,
        photographic=True,
        only="colour",
    ),
    "saturation": Operator(
        (Axis("factor", Range(0.6, 1, 1.4), Range(0, 1, 2)),), _saturate, photographic=True, only="colour"
    ),
    "gamma": Operator((Axis("exponent", Range(0.7, 1, 1.4), Range(0.3, 1, 3)),), _gamma),
}
