"""Survival that shares the population out among the kinds of disagreement.

Plain NSGA-II gathers around the few disagreements with the widest divergence and draws them again and again: in
published runs one ordered label pair is 20 to 37 % of all triggers. Here the population is shared out among niches, one
per ordered label pair, or one per behaviour (label pair and cell), and one for all that does not trigger
(docs/decisions/021).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pymoo.core.population import Population

from diffgen.search.columns import column
from diffgen.search.survival import RescoringSurvival
from diffgen.search.turns import turns


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
        self, pop: Population, *, n_survive: int, random_state: np.random.Generator | None = None, **kwargs: Any
    ) -> Population:
        sorted_all = super()._select(pop, n_survive=len(pop), random_state=random_state)
        rank, crowding = column(sorted_all, "rank"), column(sorted_all, "crowding").astype(np.float64)
        sorted_all = sorted_all[np.lexsort((-crowding, rank))]
        niche = column(sorted_all, "niche").astype(np.int64)
        turn = turns(niche)
        # numbers of (turn, label pair), and who of those comes first
        _, served = np.unique(np.column_stack([turn, niche // self._cells]), axis=0, return_inverse=True)
        # stable: of those served together the better one comes first
        order = np.lexsort((turns(served.astype(np.int64).reshape(-1)), turn))
        return sorted_all[np.sort(order[:n_survive])]
