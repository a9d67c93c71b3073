"""Geometric diversity of a set of images (Aghababaeyan et al. 2023, DeepGD; Kulesza and Taskar 2012)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from diffgen.types import Int64Array


def geometric_diversity(features: NDArray[np.floating]) -> float:
    """Log-determinant of the Gram matrix of the features: twice the log of the volume that the vectors span.

    The published code takes the absolute value of it, which makes a set of near-copies (a large negative value) look
    diverse; here the sign is kept. Comparable only between sets of one size and one kind of features.

    Args:
        features: float (N, D), one row an image; scaled as the caller wants them compared.

    Returns:
        the log-determinant; -inf where the rows are linearly dependent (always so for N > D), 0 for no rows.
    """
    if len(features) == 0:
        return 0.0
    if len(features) > features.shape[1]:
        return -np.inf
    # singular values of V instead of a determinant of V V^T: half the digits would be lost in squaring
    singular = np.linalg.svd(np.asarray(features, dtype=np.float64), compute_uv=False)
    if singular[-1] <= singular[0] * np.finfo(np.float64).eps * max(features.shape):
        return -np.inf
    return float(2 * np.log(singular).sum())


DRAWS = 30  # as published (DiffGAN, section 5.2)
SIZE = 1000  # images of a subset, as published

_Value = TypeVar("_Value", bound=np.generic)


def equal_subsets(count: int, size: int, *, draws: int = DRAWS, seed: int = 0) -> Int64Array:
    """Rows of random subsets without repetition within one.

    Args:
        size: size of a subset, at most ``count``.

    Returns:
        int64 (draws, size).

    Raises:
        ValueError: the set is smaller than a subset.
    """
    if size > count:
        raise ValueError(f"a set of {count} has no subset of {size}")
    rng = np.random.default_rng(seed)
    return np.stack([rng.choice(count, size, replace=False) for _ in range(draws)]).astype(np.int64)


def over_equal_subsets(
    sets: Sequence[NDArray[_Value]],
    figure: Callable[[NDArray[_Value]], float],
    *,
    size: int = SIZE,
    draws: int = DRAWS,
    seed: int = 0,
) -> NDArray[np.float64]:
    """A figure of every set on subsets of the same size: ``size``, or that of the smallest set.

    Args:
        sets: arrays whose rows are images, features or kinds.

    Returns:
        float64 (number of sets, draws).
    """
    size = min([size, *map(len, sets)])
    return np.array(
        [[figure(each[rows]) for rows in equal_subsets(len(each), size, draws=draws, seed=seed)] for each in sets]
    )
