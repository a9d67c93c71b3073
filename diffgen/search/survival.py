"""Survival of NSGA-II, where the population lies: rank, crowding distance, and turns of the label pairs.

Plain NSGA-II gathers around the few disagreements with the widest divergence and draws them again and again: in
published runs one ordered label pair is 20 to 37 % of all triggers. Shared out among niches, one per ordered label pair
and one for all that does not trigger, the population keeps to none of them (docs/decisions/021).

The fronts alone are found on the processor (docs/decisions/051): for two objectives that takes as long as a sort.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting
from pymoo.util.randomized_argsort import randomized_argsort

# Individuals as columns, a tensor of N rows each: X, float64 genes; F, float64 objectives; and what else is known.
Population = Mapping[str, torch.Tensor]


def rows_of(population: Population, rows: torch.Tensor) -> dict[str, torch.Tensor]:
    """Some individuals, by their rows or a mask, in memory of their own."""
    return {name: values[rows.to(values.device)] for name, values in population.items()}


def joined(population: Population, others: Population) -> dict[str, torch.Tensor]:
    """Individuals and after them others; of what is known of both."""
    return {name: torch.cat([values, others[name]]) for name, values in population.items() if name in others}


def survivors(population: Population, count: int, rng: np.random.Generator, *, niches: bool) -> Population:
    """At most ``count`` individuals, with their ``rank`` and ``crowding`` distance among all.

    Without niches who survives is whom pymoo's ``RankAndCrowding`` chooses with the same random state. With them the
    niches take turns; in its turn each hands over the best that it has left, by rank, then by crowding distance among
    all: a niche is no population of its own. When there are more niches than places that are left in a turn, those get
    none whose best comes last. What leaves the population stays in the archive.

    Args:
        population: with F, float64 (N, objectives), and where there are niches with ``niche``, int64 (N,).
        count: places.
        rng: decides among those who are equally crowded, without niches.
        niches: whether places are shared out among them.
    """
    F = population["F"]
    fronts = NonDominatedSorting().do(F.cpu().numpy(), n_stop_if_ranked=len(F) if niches else count)
    rows = torch.from_numpy(np.concatenate(fronts)).to(F.device)
    rank = torch.arange(len(fronts)).repeat_interleave(torch.tensor([len(front) for front in fronts])).to(F.device)
    crowding = crowding_distances(F[rows], rank)
    kept = torch.arange(len(rows), device=F.device)
    if niches:
        order = crowding.argsort(descending=True, stable=True)
        order = order[rank[order].argsort(stable=True)]
        served = turns(population["niche"][rows[order]]).argsort(stable=True)
        kept = order[served[:count].sort().values]
    elif len(rows) > count:
        start = int((rank < rank[-1]).sum())
        last = crowding[start:].cpu().numpy()
        order = randomized_argsort(last, order="descending", method="numpy", random_state=rng)
        kept = torch.cat([kept[:start], kept[start:][torch.from_numpy(order[: count - start].copy()).to(F.device)]])
    return {**rows_of(population, rows[kept]), "rank": rank[kept], "crowding": crowding[kept]}


def crowding_distances(F: torch.Tensor, rank: torch.Tensor) -> torch.Tensor:
    """Crowding distance of each point within its front (Deb et al. 2002), all fronts at once.

    Args:
        F: float64 (N, objectives).
        rank: int64 (N,), the front of each, ascending.

    Returns:
        float64 (N,), what pymoo's "cd" gives front by front: infinite at the ends of a front and in fronts of one or
        two; an objective in which a front is all alike adds nothing. A value that is not finite (a filter gave no
        number) counts as the worst finite one of its front, so that it pushes nobody away and nothing becomes NaN.
    """
    if len(F) == 0:
        return F.new_empty(0)
    sizes = rank.bincount()
    ends = sizes.cumsum(0)
    finite = F.isfinite()
    worst = F.new_full((len(sizes), F.shape[1]), -torch.inf)
    worst.scatter_reduce_(0, rank[:, None].expand_as(F), F.masked_fill(~finite, -torch.inf), "amax")
    F = torch.where(finite, F, worst.masked_fill(worst.isinf(), 0.0)[rank])
    place = torch.arange(len(F), device=F.device)
    first, last = place == (ends - sizes)[rank], place == (ends - 1)[rank]
    unending = F.new_full((1,), torch.inf)
    total = torch.zeros_like(F[:, 0])
    for values in F.unbind(dim=1):
        order = values.argsort(stable=True)
        # nobody is moved to another front: the places of each front are those that it had
        order = order[rank[order].argsort(stable=True)]
        ordered = values[order]
        spread = (ordered[ends - 1] - ordered[ends - sizes])[rank]
        gaps = ordered.diff()
        before = torch.where(first, torch.inf, torch.cat([unending, gaps]))
        after = torch.where(last, torch.inf, torch.cat([gaps, unending]))
        total[order] += torch.where(spread == 0, 0.0, before / spread) + torch.where(spread == 0, 0.0, after / spread)
    return (total / F.shape[1]).masked_fill(sizes[rank] <= 2, torch.inf)


def turns(groups: torch.Tensor) -> torch.Tensor:
    """int64 (N,): for each individual, how many before it are of the same group, int64 (N,)."""
    _, numbers, sizes = groups.unique(return_inverse=True, return_counts=True)
    order = numbers.argsort(stable=True)
    places = torch.arange(len(groups), device=groups.device) - (sizes.cumsum(0) - sizes)[numbers[order]]
    return torch.empty_like(places).scatter_(0, order, places)
