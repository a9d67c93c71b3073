"""Averages large pictures down, for networks and distances that need no detail.

What a picture shows, and whether it is like another one, can be told at 32 pixels; photographs of a few hundred would
make the networks of a data set a hundred times as slow to train (docs/decisions/038).
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F

from diffgen.sampling import LARGE_BYTES, affordable_rows
from diffgen.types import Int64Array, UInt8Array

LARGEST_SIDE = 32  # pixels
_SHORTEST = 8  # pixels; of panoramas
_BATCH = 256  # images of a mapped file that are in memory at once
_FLOAT = 4  # bytes
_AT_ONCE = 2**20  # values that are floats at once


def shrunk_sides(height: int, width: int, largest: int = LARGEST_SIDE) -> tuple[int, int]:
    """Sides of at most ``largest`` pixels in the same proportion, as near as whole pixels come; none gets below 8."""
    share = min(1.0, largest / max(height, width))
    return max(min(height, _SHORTEST), round(height * share)), max(min(width, _SHORTEST), round(width * share))


def shrunk_shape(image_shape: tuple[int, int, int], largest: int = LARGEST_SIDE) -> tuple[int, int, int]:
    """(C, h, w): the shape that :func:`shrunk` gives images of (C, H, W)."""
    return (image_shape[0], *shrunk_sides(image_shape[1], image_shape[2], largest))


def shrunk(images: torch.Tensor, largest: int = LARGEST_SIDE) -> torch.Tensor:
    """Images of at most ``largest`` pixels a side, each pixel the mean of those that it stands for.

    Args:
        images: (N, C, H, W), uint8 or floating.
        largest: longest side that is left as it is, in pixels.

    Returns:
        (N, C, h, w): the images themselves where they are small enough; else floating, float32 for uint8. What becomes
        of an image depends on no other.
    """
    height, width = images.shape[-2:]
    sides = shrunk_sides(height, width, largest)
    if sides == (height, width):
        return images
    if images.is_floating_point():
        return F.adaptive_avg_pool2d(images, sides)
    # few at once: as floats they are four times as large, and a large set does not fit the processor's cache
    size = max(1, _AT_ONCE // math.prod(images.shape[1:]))
    # into memory that is there: what is kept between two large pieces of memory keeps the one from being used again
    small = torch.empty((*images.shape[:-2], *sides), dtype=torch.float32, device=images.device)
    for part, into in zip(images.split(size), small.split(size), strict=True):
        into.copy_(F.adaptive_avg_pool2d(part.to(torch.float32), sides))
    return small


def shrunk_by_products(images: torch.Tensor, image_shape: tuple[int, int, int]) -> torch.Tensor:
    """What :func:`shrunk` gives, float32, in operators that every exporter of networks knows.

    Args:
        images: (N, C, H, W), uint8 or floating.
        image_shape: (C, H, W), larger than what is left as it is; the sides that are traced are no numbers.
    """
    _, height, width = image_shape
    down, across = shrunk_sides(height, width)
    return _averages(height, down) @ images.to(torch.float32) @ _averages(width, across).T


def _averages(side: int, parts: int) -> torch.Tensor:
    """float32 (parts, side): by what the pixels of a line are multiplied for the means that adaptive pooling takes."""
    lines = torch.eye(side, dtype=torch.float64)
    return F.adaptive_avg_pool1d(lines[:, None], parts)[:, 0].T.to(torch.float32)


def lesson_rows(images: UInt8Array, rows: Int64Array | None = None) -> Int64Array:
    """Which images networks learn from: all, or of a large set as many as can be held as :func:`shrunk` gives them.

    Args:
        images: uint8 (N, C, H, W), the whole set.
        rows: int64 (n,), those to choose from, ascending; None for all.

    Returns:
        int64, ascending.
    """
    channels, height, width = images.shape[1:]
    return affordable_rows(images, rows, each=_FLOAT * math.prod(shrunk_shape((channels, height, width))))


def lessons(images: UInt8Array, rows: Int64Array) -> torch.Tensor:
    """Some images as networks learn from them: those of a large set are shrunk while they are read.

    Args:
        images: uint8 (N, C, H, W), the whole set.
        rows: int64 (n,).

    Returns:
        uint8 (n, C, H, W), or of a large set what :func:`shrunk` gives.
    """
    if images.nbytes <= LARGE_BYTES:
        whole = torch.from_numpy(images)
        return whole if len(rows) == len(whole) else whole[torch.from_numpy(rows)]
    parts = np.array_split(rows, max(1, math.ceil(len(rows) / _BATCH)))
    return torch.cat([shrunk(torch.from_numpy(images[part])) for part in parts])
