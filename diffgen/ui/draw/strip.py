"""Many small pictures in one, so that a page of them is one request."""

from __future__ import annotations

import numpy as np
from PIL import Image

from diffgen.types import UInt8Array

LONGEST_SIDE = 96  # pixels of one picture on the strip


def strip_of(images: UInt8Array) -> UInt8Array:
    """uint8 (C, h, N * w): pictures side by side, reduced where they are large, for uint8 (N, C, H, W)."""
    height, width = images.shape[2:]
    if max(height, width) > LONGEST_SIDE:
        share = LONGEST_SIDE / max(height, width)
        size = max(1, round(width * share)), max(1, round(height * share))
        images = np.stack([_reduced(image, size) for image in images])
    return np.concatenate(list(images), axis=2)


def _reduced(image: UInt8Array, size: tuple[int, int]) -> UInt8Array:
    channels = [np.asarray(Image.fromarray(plane).resize(size, Image.Resampling.BOX)) for plane in image]
    return np.stack(channels)
