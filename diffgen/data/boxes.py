"""Boxes of objects in pictures: what becomes of them where a picture is cut or moved."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffgen.types import Float32Array

KEPT = 0.5  # share of its area that has to be left of a box


def clipped(boxes: Float32Array, shape: tuple[int, int]) -> Float32Array:
    """Boxes cut off at the sides of a picture; those that lie outside by more than half of their area are left out.

    Args:
        boxes: float32 (n, 5), x1, y1, x2, y2 in pixels, class.
        shape: height and width of the picture.
    """
    cut = boxes.copy()
    cut[:, 0:4:2] = boxes[:, 0:4:2].clip(0, shape[1])
    cut[:, 1:4:2] = boxes[:, 1:4:2].clip(0, shape[0])
    return cut[(area(cut) > 0) & (area(cut) >= KEPT * area(boxes))]


def area(boxes: NDArray[Any]) -> NDArray[Any]:
    """Of each box (n, 4 or more), (n,); 0 where its corners are in the wrong order."""
    return np.maximum(boxes[:, 2] - boxes[:, 0], 0) * np.maximum(boxes[:, 3] - boxes[:, 1], 0)
