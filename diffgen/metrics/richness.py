"""How many kinds there are, met and not met, and how fast new ones are met."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np

from diffgen.types import Int64Array

_LAST_PART = 0.2  # of a search; its rate of discovery is that of what would come next


def chao1(counts: Int64Array) -> float:
    """Chao's lower bound of the number of kinds, bias-corrected (Chao 1984; Chao and Chiu 2016).

    S + f1 (f1 - 1) / (2 (f2 + 1)), with S kinds met, f1 of them once and f2 twice. There are at least so many, for
    draws that do not depend on each other. A search that looks for more of the same meets few kinds only once, so that
    the bound is low: there it says what the search would still meet at least. Repetitions that are no new draws, such
    as near-duplicates, have to be left out, since they make kinds that were met once look as if they were met often.

    Args:
        counts: int64 (S,), how often each kind was met; zeros are left out.
    """
    counts = counts[counts > 0]
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return len(counts) + once * (once - 1) / (2 * (twice + 1))


@dataclass(frozen=True)
class Discovery:
    """The rate of discovery: how many new behaviours the last part of a search met.

    Attributes:
        new_behaviours: those that were not met before it.
    """

    queries: int
    new_behaviours: int

    @property
    def per_1000_queries(self) -> float:
        """New behaviours for every 1,000 queries; 0 for no queries."""
        return 1000 * self.new_behaviours / self.queries if self.queries else 0.0

    def as_dict(self) -> dict[str, float]:
        """As JSON values, the rate among them."""
        return {**asdict(self), "per_1000_queries": round(self.per_1000_queries, 3)}


@dataclass(frozen=True)
class Richness:
    """What was met, and what that says of the rest.

    Attributes:
        met: number of behaviours.
        at_least: how many there are at least, met or not; see :func:`chao1`.
        discovery: in the last fifth of the search.
    """

    met: int
    at_least: int
    discovery: Discovery


def first_queries(kinds: Int64Array, query: Int64Array) -> Int64Array:
    """int64 (S,), ascending: the query in which each of S kinds was met first.

    Args:
        kinds: int64 (N, D); equal rows are one kind.
        query: int64 (N,), the query in which each was met.
    """
    inverse = np.unique(kinds, axis=0, return_inverse=True)[1].reshape(-1)
    first = np.full(int(inverse.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, inverse, query)
    return np.sort(first)


def richness(behaviours: Int64Array, query: Int64Array, queries: int) -> Richness:
    """Count behaviours and tell how many more there are.

    Args:
        behaviours: int64 (N, D), of each distinct valid trigger; see :mod:`diffgen.metrics.counting`.
        query: int64 (N,), the query in which each was found, counted from 1.
    """
    counts = np.unique(behaviours, axis=0, return_counts=True)[1]
    last = math.ceil(_LAST_PART * queries)
    new = int((first_queries(behaviours, query) > queries - last).sum())
    return Richness(len(counts), math.floor(chao1(counts)), Discovery(last, new))


def effective_number(kinds: Int64Array) -> float:
    """Exponential of the entropy of the kinds' frequencies.

    Args:
        kinds: int64 (N,) or (N, D); equal entries, or equal rows, are one kind. Label pairs are rows of two, behaviours
            rows of three.

    Returns:
        between 1 and the number of different kinds; 0 for no entries.
    """
    if len(kinds) == 0:
        return 0.0
    counts = np.unique(kinds, axis=0, return_counts=True)[1]
    shares = counts / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))
