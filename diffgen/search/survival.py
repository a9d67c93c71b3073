"""Survival of NSGA-II on an objective that moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pymoo.operators.survival.rank_and_crowding import RankAndCrowding
from pymoo.util.randomized_argsort import randomized_argsort

from diffgen.search.individuals import Column, Individuals
from diffgen.search.problem import GeneProblem
from diffgen.types import Int64Array


class RescoringSurvival(RankAndCrowding):  # type: ignore[misc]
    """Rank and crowding among individuals whose second objective was scored against the same representatives.

    Parents and offspring compete, so both must be measured with one measure (pymoo's own advice for objectives that
    move: evaluate the survivors again). Who survives is whom ``RankAndCrowding`` chooses with the same random state.
    """

    def _do(
        self,
        problem: GeneProblem,
        pop: Individuals,
        *args: Any,
        n_survive: int,
        random_state: np.random.Generator,
        **kwargs: Any,
    ) -> Individuals:
        problem.rescore(pop)
        rows, rank, crowding = self._select(pop, n_survive, random_state)
        survivors = pop[torch.from_numpy(rows)]
        survivors.set("rank", rank)
        survivors.set("crowding", crowding)
        return survivors

    def _select(
        self, pop: Individuals, n_survive: int, rng: np.random.Generator
    ) -> tuple[Int64Array, Int64Array, Column]:
        """The rows of those who stay, with the rank and the crowding distance of each."""
        rows, rank, crowding = self._ranked(pop.get("F"), n_survive)
        too_many = len(rows) - n_survive
        if too_many > 0:
            start = np.flatnonzero(rank == rank[-1])[0]
            order = randomized_argsort(crowding[start:], order="descending", method="numpy", random_state=rng)
            kept = np.r_[:start, start + order[:-too_many]]
            rows, rank, crowding = rows[kept], rank[kept], crowding[kept]
        return rows, rank, crowding

    def _ranked(self, F: Column, count: int) -> tuple[Int64Array, Int64Array, Column]:
        """The rows of the fronts that it takes to have so many, with the rank and crowding distance of each."""
        fronts = self.nds.do(F, n_stop_if_ranked=count)
        rows = np.concatenate(fronts)
        rank = np.repeat(np.arange(len(fronts)), [len(front) for front in fronts])
        return rows, rank, crowding_distances(F[rows], rank)


def crowding_distances(F: Column, front: Column) -> Column:
    """Crowding distance of each point within its front (Deb et al. 2002), all fronts at once.

    Args:
        F: float64 (N, objectives).
        front: int64 (N,), ascending.

    Returns:
        float64 (N,), what pymoo's "cd" gives front by front: infinite at the ends of a front and in fronts of one or
        two; an objective in which a front is all alike adds nothing. A value that is not finite (a filter gave no
        number) counts as the worst finite one of its front, so that it pushes nobody away and nothing becomes NaN.
    """
    if len(F) == 0:
        return np.empty(0)
    starts = np.r_[True, front[1:] != front[:-1]]
    ends = np.r_[starts[1:], True]
    group = np.cumsum(starts) - 1
    finite = np.isfinite(F)
    if not finite.all():
        worst = np.maximum.reduceat(np.where(finite, F, -np.inf), np.flatnonzero(starts), axis=0)
        F = np.where(finite, F, np.where(np.isfinite(worst), worst, 0.0)[group])
    total = np.zeros(len(F))
    for values in F.T:
        order = np.lexsort((values, front))
        ordered = values[order]
        # the ends lie where they lay before: sorting moves nobody to another front
        gaps = np.diff(ordered, prepend=-np.inf)
        before = np.where(starts, np.inf, gaps)
        after = np.where(ends, np.inf, np.append(gaps[1:], np.inf))
        spread = (ordered[ends] - ordered[starts])[group]
        with np.errstate(invalid="ignore", divide="ignore"):
            scaled = np.where(spread == 0, 0.0, before / spread) + np.where(spread == 0, 0.0, after / spread)
        total[order] += scaled
    total /= F.shape[1]
    total[np.bincount(group)[group] <= 2] = np.inf
    return total
