"""Operators that move the pixels of an image: turns, shifts, shears, scales, perspective, bending, and motion."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypedDict

import numpy as np
import torch
import torch.nn.functional as F

from diffgen.gan_training.augmentation import ROTATION_DEGREES, SHEAR_DEGREES, SHIFT_PERCENT, Background
from diffgen.sources.operators.base import (
    Axis,
    Float64Array,
    Operator,
    Range,
    Scene,
    Strengths,
    column,
    normal_patterns,
    to_bytes,
)

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
    if background is None:
        above, beside = height // 4, width // 4
        pixels = F.pad(pixels, [beside, beside, above, above], mode="reflect")
        across, down = _mirrored(across, width, beside), _mirrored(down, height, above)
        return to_bytes(_seen(pixels, across, down))
    # background becomes zero, which is what comes in
    level = torch.tensor(background).reshape(-1, 1, 1)
    return to_bytes(_seen(pixels - level, across, down) + level)


def _seen(pixels: torch.Tensor, across: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """float32 (N, C, h, w): pixels (N, C, H, W) at places right and down of their middle, zero beyond their edges.

    The places are float64 and together (N, h, w).
    """
    height, width = pixels.shape[-2:]
    # as float32 before they are spread out: of large pictures that is most of what an operator costs
    sides = ((across * 2 / width).to(torch.float32), (down * 2 / height).to(torch.float32))
    grid = torch.stack(torch.broadcast_tensors(*sides), dim=3)
    return F.grid_sample(pixels, grid, padding_mode="zeros", align_corners=False)


def _mirrored(places: torch.Tensor, side: int, border: int) -> torch.Tensor:
    """Places beyond a border, as the places in the image that are seen there; all others as they are.

    Args:
        places: float64, from the middle of an image, in pixels.
        border: width of what was mirrored already.
    """
    last = (side - 1) / 2  # the outermost pixel
    if float(places.abs().max()) <= last + border:
        return places
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


Matrix = list[float]


def _affine(matrix: Callable[[Mapping[str, float]], Matrix]) -> _Change:
    """What an operator does whose change is an affine map, as :func:`_warp` takes it, and what becomes of boxes."""

    def apply(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
        return _warp(images, scene.background, [matrix(each) for each in strengths])

    def moves(boxes: Float64Array, sides: tuple[int, int], strengths: Mapping[str, float]) -> Float64Array:
        a, b, c, d, x, y = matrix(strengths)
        back = np.linalg.inv(np.array([[a, b], [c, d]]))
        return _around(_corners(boxes, sides) @ back.T + (x, y), sides)

    return {"apply": apply, "moves": moves}


class _Change(TypedDict):
    """What an operator does to images, and to boxes."""

    apply: Callable[[torch.Tensor, Scene, Strengths], torch.Tensor]
    moves: Callable[[Float64Array, tuple[int, int], Mapping[str, float]], Float64Array]


def _corners(boxes: Float64Array, sides: tuple[int, int]) -> Float64Array:
    """float64 (n, 4, 2): how far right and down of the middle the corners of boxes (n, 4) lie, for images of (H, W)."""
    x1, y1, x2, y2 = boxes.T
    corners = np.stack([np.stack([x1, x2, x2, x1], axis=1), np.stack([y1, y1, y2, y2], axis=1)], axis=2)
    return corners - (sides[1] / 2, sides[0] / 2)


def _around(points: Float64Array, sides: tuple[int, int]) -> Float64Array:
    """Boxes (n, 4) around points (n, k, 2) that are given from the middle."""
    places = points + np.array([sides[1] / 2, sides[0] / 2])
    return np.concatenate([places.min(axis=1), places.max(axis=1)], axis=1)


def _rotation(strengths: Mapping[str, float]) -> Matrix:
    turn = math.radians(strengths["degrees"])
    return [math.cos(turn), math.sin(turn), -math.sin(turn), math.cos(turn), 0, 0]


def _scaling(width: float, height: float) -> Matrix:
    return [1 / width, 0, 0, 1 / height, 0, 0]


def _tilt(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    """As if the picture were turned away on the side where it becomes smaller: lines stay straight."""
    height, width = images.shape[-2:]
    across, down = _places((height, width))
    right, below = column(strengths, "right")[:, :, 0], column(strengths, "down")[:, :, 0]
    # how far away each place is, as a multiple of the middle's distance; a projective map
    away = 1 / (1 - right * across * 2 / width - below * down * 2 / height)
    return _sampled(images, scene.background, across * away, down * away)


def _tilted(boxes: Float64Array, sides: tuple[int, int], strengths: Mapping[str, float]) -> Float64Array:
    corners = _corners(boxes, sides)
    # the other way: what lies at p is seen at p / (1 + k(p)), where k is what _tilt takes from 1
    nearer = 1 + corners @ (2 * strengths["right"] / sides[1], 2 * strengths["down"] / sides[0])
    return _around(corners / nearer[..., None], sides)


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
    across, down = _bent_places(strengths, (images.shape[2], images.shape[3]))
    return _sampled(images, scene.background, across, down)


def _bent_places(strengths: Strengths, sides: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """float64 (N, H, W) each: where in an image each pixel lies that :func:`_bend` makes."""
    knots = normal_patterns(strengths, (2, _KNOTS, _KNOTS))
    field = F.interpolate(knots, size=sides, mode="bicubic", align_corners=True)
    field = field * column(strengths, "pixels")
    across, down = _places(sides)
    return across + field[:, 0], down + field[:, 1]


def _bent(boxes: Float64Array, sides: tuple[int, int], strengths: Mapping[str, float]) -> Float64Array:
    """Around all pixels that lie in a box, to a pixel; a box that no pixel lies in any more has no size."""
    across, down = (
        each[0].numpy() + side / 2
        for each, side in zip(_bent_places([dict(strengths)], sides), (sides[1], sides[0]), strict=True)
    )
    moved = np.zeros_like(boxes)
    for row, (x1, y1, x2, y2) in enumerate(boxes):
        rows, columns = np.nonzero((across >= x1) & (across < x2) & (down >= y1) & (down < y2))
        if len(rows):
            moved[row] = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
    return moved


OPERATORS = {
    "rotation": Operator(
        (Axis("degrees", _both_ways(ROTATION_DEGREES), _both_ways(45), unit=" degrees"),), **_affine(_rotation)
    ),
    "shift": Operator(
        (
            # whole pixels, so that the image stays as sharp as it was
            Axis("right", _both_ways(SHIFT_PERCENT), _both_ways(25), percent_of="width", whole=True, unit=" pixels"),
            Axis("down", _both_ways(SHIFT_PERCENT), _both_ways(25), percent_of="height", whole=True, unit=" pixels"),
        ),
        **_affine(lambda each: [1, 0, 0, 1, each["right"], each["down"]]),
    ),
    "shear": Operator(
        (Axis("degrees", _both_ways(SHEAR_DEGREES), _both_ways(40), unit=" degrees"),),
        **_affine(lambda each: [1, math.tan(math.radians(each["degrees"])), 0, 1, 0, 0]),
    ),
    "scale": Operator(
        (Axis("factor", Range(0.85, 1, 1.15), Range(0.5, 1, 1.6)),),
        **_affine(lambda each: _scaling(each["factor"], each["factor"])),
    ),
    "stretch": Operator(
        (
            Axis("width", Range(0.85, 1, 1.15), Range(0.5, 1, 1.6)),
            Axis("height", Range(0.85, 1, 1.15), Range(0.5, 1, 1.6)),
        ),
        **_affine(lambda each: _scaling(each["width"], each["height"])),
        photographic=True,
    ),
    "perspective": Operator(
        (Axis("right", _both_ways(0.15), _both_ways(0.3)), Axis("down", _both_ways(0.15), _both_ways(0.3))),
        _tilt,
        moves=_tilted,
        photographic=True,
    ),
    "elastic": Operator(
        (Axis("pixels", Range(0, 0, 3), Range(0, 0, 10), percent_of="width", unit=" pixels"),),
        _bend,
        moves=_bent,
        patterned=True,
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
