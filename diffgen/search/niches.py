"""Survival that shares the population out among the kinds of disagreement.

Plain NSGA-II gathers around the few disagreements with the widest divergence and draws them again and again: in
published runs one ordered label pair is 20 to 37 % of all triggers. Here the population is shared out among niches, one
per ordered label pair, or one per behaviour (label pair and cell), and one for all that does not trigger
(docs/decisions/021).
"""

from __future__ import annotations

import numpy as np

from diffgen.search.individuals import Column, Individuals
from diffgen.search.survival import RescoringSurvival
from diffgen.search.turns import turns
from diffgen.types import Int64Array


class NicheSurvival(RescoringSurvival):
    """The niches take turns; in its turn each hands over the best that it has left.

    Which one is better is decided among all, by rank, then by crowding distance, as NSGA-II would decide it and as
    mating's tournaments do: a niche is no population of its own.

    When there are more niches than places that are left in a turn, the label pairs take turns within it, each with the
    best of its niches that has not been served. Only when there are more label pairs than places do some get none:
    those whose best comes last among all. What leaves the population stays in the archive.

    Args:
        cells: niches of one label pair; niche number // ``cells`` is the number of the label pair.
    """

    def __init__(self, *, cells: int = 1) -> None:
        super().__init__()
        self._cells = cells

    def _select(
        self, pop: Individuals, n_survive: int, rng: np.random.Generator
    ) -> tuple[Int64Array, Int64Array, Column]:
        rows, rank, crowding = self._ranked(pop.get("F"), len(pop))
        best_first = np.lexsort((-crowding, rank))
        served = places_in_turns(pop.get("niche")[rows[best_first]], self._cells)
        kept = best_first[np.sort(served[:n_survive])]
        return rows[kept], rank[kept], crowding[kept]


def places_in_turns(niche: Int64Array, cells: int) -> Int64Array:
    """int64 (N,): in which order individuals are served, whose niches are int64 (N,), the best one's first."""
    turn = turns(niche)
    # one number for each turn of each label pair: who of those served together comes first
    _, pairs = np.unique(niche // cells, return_inverse=True)
    # stable: of those served together the better one comes first
    return np.lexsort((turns(turn * len(niche) + pairs.astype(np.int64)), turn))
