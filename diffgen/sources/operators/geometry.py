"""Operators that move the pixels of an image: turns, shifts, shears, scales, perspective, and bending."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from diffgen.gan_training.augmentation import ROTATION_DEGREES, SHEAR_DEGREES, SHIFT_PERCENT, Background
from diffgen.sources.operators.base import (
    Axis,
    Operator,
    Range,
    Scene,
    Strengths,
    column,
    normal_patterns,
    places,
    to_bytes,
)

_KNOTS = 4  # of an elastic displacement, each way: strokes bend, and do not break


def _both_ways(reach: float) -> Range:
    return Range(-reach, 0.0, reach)


def _sampled(images: torch.Tensor, background: Background, across: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """Images read at other places.

    Args:
        images: uint8 (N, C, H, W).
        background: comes into view; None: the image, mirrored at its edges as often as it takes.
        across, down: float64 (N, H, W), where in the image each pixel of the result lies, from its middle, in pixels.
    """
    height, width = images.shape[-2:]
    pixels = images.to(torch.float32)
    level = torch.zeros(1) if background is None else torch.tensor(background).reshape(-1, 1, 1)
    above, beside = (height // 4, width // 4) if background is None else (0, 0)
    if background is None:
        pixels = F.pad(pixels, [beside, beside, above, above], mode="reflect")
        across, down = _mirrored(across, width, beside), _mirrored(down, height, above)
    high, wide = height + 2 * above, width + 2 * beside
    grid = torch.stack([across * 2 / wide, down * 2 / high], dim=3).to(torch.float32)
    # background becomes zero, which is what comes in
    return to_bytes(F.grid_sample(pixels - level, grid, padding_mode="zeros", align_corners=False) + level)


def _mirrored(places: torch.Tensor, side: int, border: int) -> torch.Tensor:
    """Places beyond a border, as the places in the image that are seen there; all others as they are.

    Args:
        places: float64, from the middle of an image, in pixels.
        side: of the image.
        border: width of what was mirrored already.
    """
    last = (side - 1) / 2  # the outermost pixel
    turned = (places + last).remainder(4 * last)
    seen = torch.where(turned > 2 * last, 4 * last - turned, turned) - last
    return torch.where(places.abs() > last + border, seen, places)


def _warp(images: torch.Tensor, background: Background, matrices: list[list[float]]) -> torch.Tensor:
    """Each image under an affine map of its own, about its middle.

    Args:
        images: uint8 (N, C, H, W).
        background: see :func:`_sampled`.
        matrices: a, b, c, d, x, y of each: pixel p of the result lies at (a, b; c, d) (p - (x, y)) in the image.
    """
    a, b, c, d, x, y = (
        torch.tensor(values, dtype=torch.float64)[:, None, None] for values in zip(*matrices, strict=True)
    )
    across, down = places((images.shape[2], images.shape[3]))
    across, down = across - x, down - y
    # no product of matrices: its last digits may depend on how many there are
    return _sampled(images, background, a * across + b * down, c * across + d * down)


def _rotate(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    turns = [math.radians(each["degrees"]) for each in strengths]
    return _warp(images, scene.background, [[math.cos(t), math.sin(t), -math.sin(t), math.cos(t), 0, 0] for t in turns])


def _shift(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    return _warp(images, scene.background, [[1, 0, 0, 1, each["right"], each["down"]] for each in strengths])


def _shear(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    slopes = [math.tan(math.radians(each["degrees"])) for each in strengths]
    return _warp(images, scene.background, [[1, slope, 0, 1, 0, 0] for slope in slopes])


def _scale(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    shares = [1 / each["factor"] for each in strengths]
    return _warp(images, scene.background, [[share, 0, 0, share, 0, 0] for share in shares])


def _stretch(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    return _warp(images, scene.background, [[1 / each["width"], 0, 0, 1 / each["height"], 0, 0] for each in strengths])


def _tilt(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    """As if the picture were turned away on the side where it becomes smaller: lines stay straight."""
    height, width = images.shape[-2:]
    across, down = places((height, width))
    right, below = column(strengths, "right")[:, :, 0], column(strengths, "down")[:, :, 0]
    # how far away each place is, as a multiple of the middle's distance; a projective map
    away = 1 / (1 - right * across * 2 / width - below * down * 2 / height)
    return _sampled(images, scene.background, across * away, down * away)


def _bend(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    """Simard et al. (2003), "Best practices for convolutional neural networks", with a field between a few knots."""
    height, width = images.shape[-2:]
    knots = normal_patterns(strengths, (2, _KNOTS, _KNOTS))
    field = F.interpolate(knots, size=(height, width), mode="bicubic", align_corners=True)
    field = field * column(strengths, "pixels")
    across, down = places((height, width))
    return _sampled(images, scene.background, across + field[:, 0], down + field[:, 1])


OPERATORS = {
    "rotation": Operator((Axis("degrees", _both_ways(ROTATION_DEGREES), _both_ways(45), unit=" degrees"),), _rotate),
    "shift": Operator(
        (
            # whole pixels, so that the image stays as sharp as it was
            Axis("right", _both_ways(SHIFT_PERCENT), _both_ways(25), percent_of="width", whole=True, unit=" pixels"),
            Axis("down", _both_ways(SHIFT_PERCENT), _both_ways(25), percent_of="height", whole=True, unit=" pixels"),
        ),
        _shift,
    ),
    "shear": Operator((Axis("degrees", _both_ways(SHEAR_DEGREES), _both_ways(40), unit=" degrees"),), _shear),
    "scale": Operator((Axis("factor", Range(0.85, 1, 1.15), Range(0.5, 1, 1.6)),), _scale),
    "stretch": Operator(
        (
            Axis("width", Range(0.85, 1, 1.15), Range(0.5, 1, 1.6)),
            Axis("height", Range(0.85, 1, 1.15), Range(0.5, 1, 1.6)),
        ),
        _stretch,
        photographic=True,
    ),
    "perspective": Operator(
        (Axis("right", _both_ways(0.15), _both_ways(0.4)), Axis("down", _both_ways(0.15), _both_ways(0.4))),
        _tilt,
        photographic=True,
    ),
    "elastic": Operator(
        (Axis("pixels", Range(0, 0, 3), Range(0, 0, 10), percent_of="width", unit=" pixels"),), _bend, patterned=True
    ),
}
