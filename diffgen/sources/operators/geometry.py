"""Operators that move the pixels of an image: turns, shifts, shears, scales, perspective, bending, and motion."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from diffgen.gan_training.augmentation import ROTATION_DEGREES, SHEAR_DEGREES, SHIFT_PERCENT, Background
from diffgen.sources.operators.base import Axis, Operator, Range, Scene, Strengths, column, normal_patterns, to_bytes

_WIDEST_SMEAR = 15.0  # percent of a side
_LOOKS = 8  # along a motion, at most
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
    # background becomes zero, which is what comes in
    return to_bytes(_seen(pixels - level, across, down) + level)


def _seen(pixels: torch.Tensor, across: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """float32 (N, C, h, w): pixels (N, C, H, W) at places right and down of their middle, zero beyond their edges.

    The places are float64 and together (N, h, w).
    """
    height, width = pixels.shape[-2:]
    grid = torch.stack(torch.broadcast_tensors(across * 2 / width, down * 2 / height), dim=3).to(torch.float32)
    return F.grid_sample(pixels, grid, padding_mode="zeros", align_corners=False)


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


def _places(sides: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """float64 (1, 1, W) and (1, H, 1): how far right and down of the middle the pixels lie, for images of (H, W)."""
    height, width = sides
    across = torch.arange(width, dtype=torch.float64) - (width - 1) / 2
    down = torch.arange(height, dtype=torch.float64) - (height - 1) / 2
    return across[None, None, :], down[None, :, None]


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
    across, down = _places((images.shape[2], images.shape[3]))
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
    across, down = _places((height, width))
    right, below = column(strengths, "right")[:, :, 0], column(strengths, "down")[:, :, 0]
    # how far away each place is, as a multiple of the middle's distance; a projective map
    away = 1 / (1 - right * across * 2 / width - below * down * 2 / height)
    return _sampled(images, scene.background, across * away, down * away)


def _smear(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    """A camera that moves while it looks: the mean along a line, of what is mirrored at the edges.

    The mean of a few copies along the line, each of which is filled up to the next before: by the mean of two copies a
    half of that way apart, of two of these a quarter apart, and so on, until less than a pixel is left.
    """
    height, width = images.shape[-2:]
    # as far and as finely as the widest strength needs, so that no image depends on another's
    above, beside = (min(math.ceil(_WIDEST_SMEAR / 200 * side) + 1, side - 1) for side in (height, width))
    longest = _WIDEST_SMEAR / 100 * max(height, width)
    looks = min(_LOOKS, math.ceil(longest))
    pixels = F.pad(images.to(torch.float32), [beside, beside, above, above], mode="reflect")
    across, down = _places((pixels.shape[2], pixels.shape[3]))
    right, below = column(strengths, "right")[:, :, 0], column(strengths, "down")[:, :, 0]

    def mean_of(shares: list[float]) -> torch.Tensor:
        """Of copies that lie so far along the line."""
        total = torch.zeros_like(pixels)
        for share in shares:
            total += _seen(pixels, across + share * right, down + share * below)
        return total / len(shares)

    for halving in range(max(0, math.ceil(math.log2(longest / looks)))):
        share = 0.5 ** (halving + 2) / looks
        pixels = mean_of([-share, share])
    pixels = mean_of([(look + 0.5) / looks - 0.5 for look in range(looks)])
    return to_bytes(pixels[:, :, above : above + height, beside : beside + width])


def _bend(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    """Simard et al. (2003), "Best practices for convolutional neural networks", with a field between a few knots."""
    height, width = images.shape[-2:]
    knots = normal_patterns(strengths, (2, _KNOTS, _KNOTS))
    field = F.interpolate(knots, size=(height, width), mode="bicubic", align_corners=True)
    field = field * column(strengths, "pixels")
    across, down = _places((height, width))
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
        (Axis("right", _both_ways(0.15), _both_ways(0.3)), Axis("down", _both_ways(0.15), _both_ways(0.3))),
        _tilt,
        photographic=True,
    ),
    "elastic": Operator(
        (Axis("pixels", Range(0, 0, 3), Range(0, 0, 10), percent_of="width", unit=" pixels"),), _bend, patterned=True
    ),
    # both ways are the same
    "motion": Operator(
        (
            Axis("right", _both_ways(6), _both_ways(_WIDEST_SMEAR), percent_of="width", unit=" pixels"),
            Axis("down", _both_ways(6), _both_ways(_WIDEST_SMEAR), percent_of="height", unit=" pixels"),
        ),
        _smear,
        photographic=True,
    ),
}
