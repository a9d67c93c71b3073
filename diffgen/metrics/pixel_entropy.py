"""Shannon diversity of a set of images as published (DiffGAN, section 5.3)."""

from __future__ import annotations

import numpy as np

from diffgen.types import UInt8Array


def pixel_entropy(images: UInt8Array) -> float:
    """Shannon's entropy of the pixel values of all images together, each value taken as a count (DiffGAN, Eq. 6).

    It is no diversity of images: it grows with the number of images and of inked pixels, and a set of copies scores as
    high as a set of different images. It is here so that published figures can be compared with.

    Args:
        images: uint8 (N, C, H, W).

    Returns:
        nats; 0 for no images and for black ones.
    """
    levels = np.bincount(images.reshape(-1), minlength=256).astype(np.float64)
    total = float(levels @ np.arange(256))
    if total == 0:
        return 0.0
    # all pixels of one grey level have the same share
    shares = np.arange(1, 256) / total
    return float(-(levels[1:] * shares * np.log(shares)).sum())
