"""Which mutator is next: a Metropolis-Hastings walk over the mutators in the order of their success.

J. Chen et al., "Compiler Bug Isolation via Effective Witness Test Program Generation" (2019) use it for compilers;
DRfuzz and DFlare took it over.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffgen.types import Int64Array

FIRST = -1  # there was no mutator before


def acceptance(ranks_apart: NDArray[Any], count: int) -> NDArray[np.float64]:
    """The probability with which a proposal is accepted: min(1, (1 - p) ^ (k2 - k1)) with p = 1 / count.

    Args:
        ranks_apart: k2 - k1, rank of the proposed mutator less that of the one before; rank 0 is the most successful.
    """
    return np.asarray(np.minimum(1.0, (1 - 1 / count) ** ranks_apart.astype(np.float64)))


def choose(scores: NDArray[np.float64], last: Int64Array, rng: np.random.Generator) -> Int64Array:
    """The next mutator of each of L walks.

    Mutators are proposed uniformly until one is accepted. That is the same as one draw in proportion to the
    probabilities of acceptance, which is how it is done here. Equal scores are ranked at random.

    Args:
        scores: (L, M), success of each mutator, higher is better.
        last: int64 (L,), the mutator before, or ``FIRST``: the next one is drawn uniformly.

    Returns:
        int64 (L,), from 0 to M - 1.
    """
    walks, count = scores.shape
    order = np.lexsort((rng.random(scores.shape), -scores), axis=1)
    ranks = np.argsort(order, axis=1)
    before = np.where(last == FIRST, 0, last)
    accepted = acceptance(np.arange(count) - np.take_along_axis(ranks, before[:, None], axis=1), count)
    accepted[last == FIRST] = 1.0
    reached = accepted.cumsum(axis=1)
    rank = np.sum(reached < rng.random((walks, 1)) * reached[:, -1:], axis=1, keepdims=True)
    return np.asarray(np.take_along_axis(order, rank, axis=1)[:, 0], dtype=np.int64)
