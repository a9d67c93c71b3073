"""What three models or more say of a picture: who stands alone, what the majority says, which two differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from diffgen.types import Int64Array

NO_MAJORITY = -1
FEWEST = 3  # models of which one can stand alone


def stands_alone(labels: Int64Array) -> NDArray[np.bool_]:
    """Which model says something else than all others, while these say one and the same.

    Args:
        labels: int64 (N, M) of three models or more.

    Returns:
        bool (N, M), at most one of a row.
    """
    alike = labels[:, :, None] == labels[:, None, :]
    others = alike.sum(axis=2) == labels.shape[1] - 1  # itself and all but one
    alone = alike.sum(axis=2) == 1
    return np.asarray(alone & (others.sum(axis=1, keepdims=True) == labels.shape[1] - 1))


def majority(labels: Int64Array) -> Int64Array:
    """int64 (N,): what more than half of the models say, or ``NO_MAJORITY``, for int64 (N, M)."""
    if len(labels) == 0:
        return np.empty(0, dtype=np.int64)
    votes = (labels[:, :, None] == labels[:, None, :]).sum(axis=2)
    best = votes.argmax(axis=1)
    rows = np.arange(len(labels))
    found: Int64Array = np.where(2 * votes[rows, best] > labels.shape[1], labels[rows, best], NO_MAJORITY)
    return found


def pairwise(labels: Int64Array) -> Int64Array:
    """int64 (M, M): on how many of the N rows of int64 (N, M) each two models say something else."""
    models = labels.shape[1]
    counts = np.zeros((models, models), dtype=np.int64)
    for one in range(models):
        counts[one] = (labels != labels[:, one : one + 1]).sum(axis=0)
    return counts


def sides(labels: Sequence[int]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """What is said, and the numbers of the models that say it: most models first, then in the order of the models."""
    groups: dict[int, list[int]] = {}
    for index, label in enumerate(labels):
        groups.setdefault(label, []).append(index)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[1][0]))
    return tuple((label, tuple(models)) for label, models in ordered)
