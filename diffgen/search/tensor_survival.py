"""Survival on tensors: crowding, niches and who stays, where the objectives lie.

It chooses whom :mod:`diffgen.search.survival` and :mod:`diffgen.search.niches` choose on arrays. The fronts alone are
found on the processor (docs/decisions/051): for two objectives that takes as long as a sort.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from pymoo.core.survival import Survival
from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting

from diffgen.search.individuals import Individuals
from diffgen.search.problem import GeneProblem


class TensorSurvival(Survival):  # type: ignore[misc]
    """Who stays: by rank and crowding distance, or niche by niche in turns.

    Args:
        cells: niches of one label pair, see :class:`diffgen.search.niches.NicheSurvival`; None: there are no niches.
    """

    def __init__(self, *, cells: int | None) -> None:
        super().__init__(filter_infeasible=False)
        self._cells = cells

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
        F = pop.column("F")
        rank = ranks(F)
        crowding = crowding_distances(F, rank)
        if self._cells is None:
            order = best_first(rank, crowding, random_state)
        else:
            order = best_first(rank, crowding)
            served = places_in_turns(pop.column("niche")[order], self._cells)
            order = order[served[:n_survive].sort().values]
        rows = order[:n_survive]
        survivors = pop[rows]
        survivors.update({"rank": rank[rows], "crowding": crowding[rows]})
        return survivors


def ranks(F: torch.Tensor) -> torch.Tensor:
    """int64 (N,): the front of each of float64 (N, objectives), from 0 on."""
    _, rank = NonDominatedSorting().do(F.cpu().numpy(), return_rank=True)
    return torch.from_numpy(rank).to(F.device)


def best_first(rank: torch.Tensor, crowding: torch.Tensor, rng: np.random.Generator | None = None) -> torch.Tensor:
    """int64 (N,): rows by rank, then by crowding distance, then as they come; or at random where there is a ``rng``."""
    rows = torch.arange(len(rank), device=rank.device)
    if rng is not None:
        rows = torch.from_numpy(rng.permutation(len(rank))).to(rank.device)
    rows = rows[crowding[rows].argsort(descending=True, stable=True)]
    return rows[rank[rows].argsort(stable=True)]


def crowding_distances(F: torch.Tensor, rank: torch.Tensor) -> torch.Tensor:
    """Crowding distance of each point within its front (Deb et al. 2002), all fronts at once.

    Args:
        F: float64 (N, objectives).
        rank: int64 (N,), the front of each, in any order.

    Returns:
        float64 (N,), see :func:`diffgen.search.survival.crowding_distances`.
    """
    if len(F) == 0:
        return F.new_empty(0)
    fronts = int(rank.max()) + 1
    finite = F.isfinite()
    # what is not finite counts as the worst finite value of its front, or as 0 where there is none
    worst = F.new_full((fronts, F.shape[1]), -torch.inf)
    worst.scatter_reduce_(0, rank[:, None].expand_as(F), F.masked_fill(~finite, -torch.inf), "amax")
    F = torch.where(finite, F, worst.masked_fill(worst.isinf(), 0.0)[rank])
    sizes = rank.bincount(minlength=fronts)
    ends = sizes.cumsum(0)
    total = torch.zeros_like(F[:, 0])
    for values in F.unbind(dim=1):
        order = values.argsort(stable=True)
        order = order[rank[order].argsort(stable=True)]
        ordered, front = values[order], rank[order]
        spread = (ordered[ends - 1] - ordered[ends - sizes])[front]
        gaps = ordered.diff()
        place = torch.arange(len(F), device=F.device)
        unending = ordered.new_full((1,), torch.inf)
        before = torch.where(place == (ends - sizes)[front], torch.inf, torch.cat([unending, gaps]))
        after = torch.where(place == ends[front] - 1, torch.inf, torch.cat([gaps, unending]))
        scaled = torch.where(spread == 0, 0.0, before / spread) + torch.where(spread == 0, 0.0, after / spread)
        total[order] += scaled
    return (total / F.shape[1]).masked_fill(sizes[rank] <= 2, torch.inf)


def places_in_turns(niche: torch.Tensor, cells: int) -> torch.Tensor:
    """int64 (N,): in which order individuals are served; see :func:`diffgen.search.niches.places_in_turns`."""
    turn = turns(niche)
    pairs = niche.div(cells, rounding_mode="floor").unique(return_inverse=True)[1]
    together = turn * (len(niche) + 1) + pairs
    order = turns(together).argsort(stable=True)
    return order[turn[order].argsort(stable=True)]


def turns(niche: torch.Tensor) -> torch.Tensor:
    """int64 (N,): for each individual, how many before it are of the same niche."""
    _, numbers, sizes = niche.unique(return_inverse=True, return_counts=True)
    order = numbers.argsort(stable=True)
    own = torch.arange(len(niche), device=niche.device) - (sizes.cumsum(0) - sizes)[numbers[order]]
    return torch.empty_like(own).scatter_(0, order, own)
