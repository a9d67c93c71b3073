"""Some rows of many, drawn at random: what stands first in a data set is often all of one class."""

from __future__ import annotations

import numpy as np

from diffgen.types import Int64Array


def random_rows(count: int, size: int, *, seed: int = 0) -> Int64Array:
    """Rows drawn without putting back, in random order.

    Args:
        count: rows there are.
        size: rows wanted.
        seed: the same gives the same rows.

    Returns:
        int64 (min(size, count),), each in [0, count), no two alike.
    """
    return np.random.default_rng(seed).permutation(count)[:size].astype(np.int64)
