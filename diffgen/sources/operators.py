"""Operators with explicit strengths: what they make of an image depends on the image and the strengths alone.

Those of :mod:`diffgen.gan_training.augmentation` draw one set of strengths for many images; these take a set for each.
Strengths are genes from -1 to 1, two for every operator, whichever of them it needs; ranges are those of the DiffGAN
paper's transformations, as that module has them, where they are the same.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from diffgen.gan_training.augmentation import (
    BLUR_PERCENT,
    BRIGHTNESS_PERCENT,
    ROTATION_DEGREES,
    SHEAR_DEGREES,
    SHIFT_PERCENT,
    Background,
)
from diffgen.origins import Step

STRENGTHS = 2  # genes of one operator
SCALE_PERCENT = 15.0
CONTRAST_PERCENT = 30.0
NOISE_LEVELS = 10.0
_NOISES = 1_000_000  # different patterns of noise; as many as a recipe's six digits tell apart

Genes = NDArray[Any]


@dataclass(frozen=True)
class Operator:
    """One way to change an image so that its label stays.

    Attributes:
        strengths: name and value of each strength for the two genes of one image of (H, W).
        apply: uint8 (N, C, H, W), their plain background, and N such strengths -> as many images.
    """

    strengths: Callable[[float, float, tuple[int, int]], dict[str, float]]
    apply: Callable[[torch.Tensor, Background, list[dict[str, float]]], torch.Tensor]


def step_of(name: str, first: float, second: float, sides: tuple[int, int]) -> Step:
    """What an operator with these genes does to an image of (H, W)."""
    return Step(name, tuple(OPERATORS[name].strengths(first, second, sides).items()))


def _column(strengths: list[dict[str, float]], name: str) -> torch.Tensor:
    """float64 (N, 1, 1, 1)."""
    return torch.tensor([each[name] for each in strengths], dtype=torch.float64)[:, None, None, None]


def _to_bytes(images: torch.Tensor) -> torch.Tensor:
    return images.round().clamp(0, 255).to(torch.uint8)


# -- geometry --------------------------------------------------------------------------------------------------------


def _warp(images: torch.Tensor, background: Background, matrices: list[list[float]]) -> torch.Tensor:
    """Each image under an affine map of its own, about its middle.

    Args:
        images: uint8 (N, C, H, W).
        background: comes into view; None: the image, mirrored at its edges.
        matrices: a, b, c, d, x, y of each: pixel p of the result lies at (a, b; c, d) (p - (x, y)) in the image.
    """
    height, width = images.shape[-2:]
    pixels = images.to(torch.float32)
    level = torch.zeros(1) if background is None else torch.tensor(background).reshape(-1, 1, 1)
    border = height // 4 if background is None else 0
    if border:
        pixels = F.pad(pixels, [border] * 4, mode="reflect")
    high, wide = height + 2 * border, width + 2 * border
    a, b, c, d, x, y = (
        torch.tensor(values, dtype=torch.float64)[:, None, None] for values in zip(*matrices, strict=True)
    )
    across = (torch.arange(wide, dtype=torch.float64) - (wide - 1) / 2)[None, None, :] - x
    down = (torch.arange(high, dtype=torch.float64) - (high - 1) / 2)[None, :, None] - y
    # no product of matrices: its last digits may depend on how many there are
    grid = torch.stack([(a * across + b * down) * 2 / wide, (c * across + d * down) * 2 / high], dim=3)
    # background becomes zero, which is what comes in
    moved = F.grid_sample(pixels - level, grid.to(torch.float32), padding_mode="zeros", align_corners=False) + level
    return _to_bytes(moved[..., border : border + height, border : border + width])


def _rotate(images: torch.Tensor, background: Background, strengths: list[dict[str, float]]) -> torch.Tensor:
    turns = [math.radians(each["degrees"]) for each in strengths]
    return _warp(images, background, [[math.cos(t), math.sin(t), -math.sin(t), math.cos(t), 0, 0] for t in turns])


def _shift(images: torch.Tensor, background: Background, strengths: list[dict[str, float]]) -> torch.Tensor:
    return _warp(images, background, [[1, 0, 0, 1, each["right"], each["down"]] for each in strengths])


def _shear(images: torch.Tensor, background: Background, strengths: list[dict[str, float]]) -> torch.Tensor:
    return _warp(images, background, [[1, math.tan(math.radians(each["degrees"])), 0, 1, 0, 0] for each in strengths])


def _scale(images: torch.Tensor, background: Background, strengths: list[dict[str, float]]) -> torch.Tensor:
    return _warp(images, background, [[1 / each["factor"], 0, 0, 1 / each["factor"], 0, 0] for each in strengths])


# -- grey levels -----------------------------------------------------------------------------------------------------


def _brighten(images: torch.Tensor, background: Background, strengths: list[dict[str, float]]) -> torch.Tensor:
    return _to_bytes(images * _column(strengths, "factor"))


def _contrast(images: torch.Tensor, background: Background, strengths: list[dict[str, float]]) -> torch.Tensor:
    # whole numbers are summed without rounding, in whatever order
    mean = images.sum(dim=(1, 2, 3), keepdim=True, dtype=torch.int64).to(torch.float64) / images[0].numel()
    return _to_bytes((images - mean) * _column(strengths, "factor") + mean)


def _blur_range(width: int) -> tuple[float, float]:
    low, high = (percent / 100 * width for percent in BLUR_PERCENT)
    return low, high


def _blur(images: torch.Tensor, background: Background, strengths: list[dict[str, float]]) -> torch.Tensor:
    reach = min(round(2.5 * _blur_range(images.shape[-1])[1]), min(images.shape[-2:]) - 1)
    taps = [[math.exp(-(k**2) / (2 * each["sigma"] ** 2)) for k in range(-reach, reach + 1)] for each in strengths]
    weights = torch.tensor([[tap / math.fsum(row) for tap in row] for row in taps], dtype=torch.float64)
    pixels = images.to(torch.float64)
    for dim in (2, 3):
        length = pixels.shape[dim]
        padding = [0, 0, reach, reach] if dim == 2 else [reach, reach, 0, 0]
        padded = F.pad(pixels, padding, mode="reflect")
        pixels = torch.zeros_like(pixels)
        for k in range(2 * reach + 1):
            pixels = pixels + weights[:, k, None, None, None] * padded.narrow(dim, k, length)
    return _to_bytes(pixels)


def _noise_seed(gene: float) -> int:
    digest = hashlib.blake2b(np.float32(gene).tobytes(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % _NOISES


def _noise(images: torch.Tensor, background: Background, strengths: list[dict[str, float]]) -> torch.Tensor:
    shape = images.shape[1:]
    patterns = [np.random.default_rng(int(each["seed"])).standard_normal(shape) for each in strengths]
    return _to_bytes(images + torch.from_numpy(np.stack(patterns)) * _column(strengths, "levels"))


OPERATORS: dict[str, Operator] = {
    "rotation": Operator(lambda first, second, sides: {"degrees": ROTATION_DEGREES * first}, _rotate),
    "shift": Operator(
        lambda first, second, sides: {
            # whole pixels, so that the image stays as sharp as it was
            "right": round(SHIFT_PERCENT / 100 * sides[1] * first),
            "down": round(SHIFT_PERCENT / 100 * sides[0] * second),
        },
        _shift,
    ),
    "shear": Operator(lambda first, second, sides: {"degrees": SHEAR_DEGREES * first}, _shear),
    "scale": Operator(lambda first, second, sides: {"factor": 1 + SCALE_PERCENT / 100 * first}, _scale),
    "brightness": Operator(lambda first, second, sides: {"factor": 1 + BRIGHTNESS_PERCENT / 100 * first}, _brighten),
    "contrast": Operator(lambda first, second, sides: {"factor": 1 + CONTRAST_PERCENT / 100 * first}, _contrast),
    "blur": Operator(
        lambda first, second, sides: {
            "sigma": _blur_range(sides[1])[0] + (_blur_range(sides[1])[1] - _blur_range(sides[1])[0]) * (1 + first) / 2
        },
        _blur,
    ),
    "noise": Operator(
        lambda first, second, sides: {"levels": NOISE_LEVELS * (1 + first) / 2, "seed": _noise_seed(second)}, _noise
    ),
}
