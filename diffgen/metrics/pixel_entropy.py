"""Shannon diversity of a set of images as published (DiffGAN, section 5.3)."""

from __future__ import annotations

import numpy as np

from diffgen.types import Int64Array, UInt8Array


def pixel_entropy(images: UInt8Array) -> float:
    """Shannon's entropy of the pixel values of all images together, each value taken as a count (DiffGAN, Eq. 6).

    It is no diversity of images: it grows with the number of images and of inked pixels, and a set of copies scores as
    high as a set of different images. It is here so that published figures can be compared with.

    Args:
        images: uint8 (N, C, H, W).

    Returns:
        nats; 0 for no images and for black ones.
    """
    return levels_entropy(levels_of(images))


def levels_of(images: UInt8Array) -> Int64Array:
    """int64 (N, 256): how many pixels of each image have each value."""
    counts = [np.bincount(image.reshape(-1), minlength=256) for image in images]
    return np.array(counts, dtype=np.int64).reshape(len(images), 256)


def levels_entropy(counts: Int64Array) -> float:
    """:func:`pixel_entropy` of images that were counted by :func:`levels_of`."""
    levels = counts.sum(axis=0).astype(np.float64)
    total = float(levels @ np.arange(256))
    if total == 0:
        return 0.0
    # all pixels of one grey level have the same share
    shares = np.arange(1, 256) / total
    return float(-(levels[1:] * shares * np.log(shares)).sum())
