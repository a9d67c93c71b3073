"""Survival that keeps every kind of disagreement in the population.

Plain NSGA-II gathers around the few disagreements with the widest divergence and draws them again and again: in
published runs one ordered label pair is 20 to 37 % of all triggers. Here the population is shared out among niches, one
per ordered label pair, or one per behaviour (label pair and cell), and one for all that does not trigger.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pymoo.core.population import Population

from diffgen.search.columns import column
from diffgen.search.survival import RescoringSurvival
from diffgen.search.turns import turns


class NicheSurvival(RescoringSurvival):
    """Rank and crowding within each niche; the niches take turns, each handing over its best that is left."""

    def _select(
        self, pop: Population, *, n_survive: int, random_state: np.random.Generator | None = None, **kwargs: Any
    ) -> Population:
        # rank and crowding distance of all, as NSGA-II would give them; mating's tournaments use them too
        sorted_all = super()._select(pop, n_survive=len(pop), random_state=random_state)
        rank, crowding = column(sorted_all, "rank"), column(sorted_all, "crowding").astype(np.float64)
        sorted_all = sorted_all[np.lexsort((-crowding, rank))]
        # stable: within one turn the better individual comes first
        order = np.argsort(turns(column(sorted_all, "niche").astype(np.int64)), kind="stable")
        return sorted_all[np.sort(order[:n_survive])]
