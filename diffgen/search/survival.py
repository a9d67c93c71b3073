"""Survival of NSGA-II on an objective that moves."""

from __future__ import annotations

from typing import Any

from pymoo.core.population import Population
from pymoo.operators.survival.rank_and_crowding import RankAndCrowding

from diffgen.search.problem import LatentProblem


class RescoringSurvival(RankAndCrowding):  # type: ignore[misc]
    """Rank and crowding among individuals whose second objective was scored against the same representatives.

    Parents and offspring compete, so both must be measured with one measure (pymoo's own advice for objectives that
    move: evaluate the survivors again).
    """

    def _do(self, problem: LatentProblem, pop: Population, *args: Any, **kwargs: Any) -> Population:
        problem.rescore(pop)
        survivors = self._select(problem, pop, **kwargs)
        problem.retain(survivors)
        return survivors

    def _select(self, problem: LatentProblem, pop: Population, *, n_survive: int, **kwargs: Any) -> Population:
        """Who stays; pymoo's own choice."""
        return super()._do(problem, pop, n_survive=n_survive, **kwargs)
