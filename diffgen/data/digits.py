"""The handwritten digits that come with scikit-learn: real scans, at hand without a download."""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np
from PIL import Image

from diffgen.data.checks import checked
from diffgen.types import ImageSet, Int64Array, UInt8Array

# The size of MNIST; the scans themselves are 8x8.
SIDE = 28
# The scans count the dark pixels in 4x4 blocks, hence 17 levels.
_HIGHEST_LEVEL = 16


def load_digits(split: Literal["train", "test"] | None, source: str) -> ImageSet:
    """The digits of Alpaydin and Kaynak (1998), as in ``sklearn.datasets.load_digits``, scaled up to 28x28.

    Args:
        split: one half, or None for all 1,797. The halves do not overlap and hold each class in equal parts.

    Returns:
        uint8 (1797 or 899 or 898, 1, 28, 28), white on black like MNIST, with labels 0..9 and class names "0".."9".
    """
    images, labels = _all_digits()
    chosen = np.arange(len(labels)) if split is None else _half(labels, split)
    return checked(
        images[chosen],
        labels[chosen],
        tuple(str(digit) for digit in range(10)),
        source,
    )


@cache
def _all_digits() -> tuple[UInt8Array, Int64Array]:
    """uint8 (1797, 1, 28, 28) and int64 (1797,), to be copied from: a server reads them again and again."""
    from sklearn import datasets  # here, because it takes half a second

    scans = datasets.load_digits()
    return _enlarged(np.asarray(scans.images)), np.asarray(scans.target, dtype=np.int64)


def _half(labels: Int64Array, split: Literal["train", "test"]) -> Int64Array:
    """Indices of one half, ascending: every other scan of each class, so no random generator can change the split."""
    by_class = np.argsort(labels, kind="stable")
    return np.sort(by_class[0 if split == "train" else 1 :: 2])


def _enlarged(scans: np.ndarray) -> UInt8Array:
    """uint8 (N, 1, 28, 28) from levels 0..16 (N, 8, 8).

    Pillow resizes 8-bit pictures in whole numbers, so the result is the same on every machine.
    """
    grey = np.rint(scans * (255 / _HIGHEST_LEVEL)).astype(np.uint8)
    large = [np.asarray(Image.fromarray(scan).resize((SIDE, SIDE), Image.Resampling.BICUBIC)) for scan in grey]
    return np.stack(large)[:, None]
