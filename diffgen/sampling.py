"""Some rows of many, drawn at random: what stands first in a data set is often all of one class."""

from __future__ import annotations

from math import prod

import numpy as np

from diffgen.types import Int64Array, UInt8Array

# What takes more than this when it is decoded is kept in a file and mapped, and filters are fitted to a random sample
# of this size: some of them keep eight times as much. CIFAR-10's training images, 147 MiB, lie below.
LARGE_BYTES = 192 * 2**20
# Fewer say nothing, however large they are.
_FEWEST = 100
_AT_ONCE = 2**25  # bytes of pictures


def at_once(most: int, image_shape: tuple[int, ...]) -> int:
    """How many pictures of (C, H, W) are handled at once: ``most`` of small ones, of large ones no more than 32 MiB."""
    return max(1, min(most, _AT_ONCE // prod(image_shape)))


def random_rows(count: int, size: int, *, seed: int = 0) -> Int64Array:
    """Rows drawn without putting back, in random order.

    Args:
        size: rows wanted.
        seed: the same gives the same rows.

    Returns:
        int64 (min(size, count),), each in [0, count), no two alike.
    """
    return np.random.default_rng(seed).permutation(count)[:size].astype(np.int64)


def affordable_rows(
    images: UInt8Array, rows: Int64Array | None = None, *, share: float = 1.0, each: int | None = None
) -> Int64Array:
    """Rows of images that can be held in memory several times: all of them, or a random sample of a large set.

    Args:
        images: uint8 (N, C, H, W), the whole set.
        rows: int64 (n,), those to choose from, ascending; None for all.
        share: of ``LARGE_BYTES`` that they may take.
        each: bytes that one takes where it is held; None: as many as in the set.

    Returns:
        int64, ascending; all of ``rows`` where the whole set takes no more than ``LARGE_BYTES``.
    """
    rows = np.arange(len(images)) if rows is None else rows
    if images.nbytes <= LARGE_BYTES:
        return rows
    each = images.nbytes // len(images) if each is None else each
    most = max(_FEWEST, int(share * LARGE_BYTES) // each)
    return np.sort(rows[random_rows(len(rows), most)])
