"""Asks two of many models first, and the others only where it may matter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diffgen.tasks.classification import pairwise
from diffgen.types import Int64Array

#: With so many models and more there is something to save.
FEWEST = 4


@dataclass(frozen=True)
class Stages:
    """Which models are asked first, and about which share of what these agree on the others are asked too.

    Attributes:
        first: numbers of two models, ascending.
        share: 0..1.
        seed: of the share.
    """

    first: tuple[int, int]
    share: float
    seed: int

    def sampled(self, first_query: int, count: int) -> NDArray[np.bool_]:
        """bool (count,): which of the queries from ``first_query`` on are put to all models, whatever two of them say.

        It depends on a query's number and the seed alone, so that a search that is resumed asks as it would have.
        """
        with np.errstate(over="ignore"):
            # SplitMix64 (Steele, Lea and Flood 2014) of the number
            mixed = np.arange(first_query, first_query + count, dtype=np.uint64) + np.uint64(self.seed % 2**32 << 32)
            mixed = (mixed + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (mixed ^ (mixed >> np.uint64(31))).astype(np.float64) / 2.0**64 < self.share


def most_apart(labels: Int64Array) -> tuple[int, int]:
    """The two models that differ on most of N images, for int64 (N, M); the first such two."""
    counts = np.triu(pairwise(labels), 1)
    one, other = np.unravel_index(int(counts.argmax()), counts.shape)
    return (int(one), int(other)) if counts.max() else (0, 1)
