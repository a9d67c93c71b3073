"""Mating of latent vectors on tensors: tournaments, crossover, mutation, repair, and no genes twice.

It does what :mod:`diffgen.search.mating` does on arrays; nothing of it leaves the device but how many are new.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from diffgen.search.individuals import Individuals
from diffgen.search.mating import ROUNDS
from diffgen.search.operators import SpaceCrossover, SpaceMutation
from diffgen.search.problem import GeneProblem
from diffgen.sources.tensor_space import TensorSpace, uniform

_SEEDS = 2**32  # torch's generator on the processor looks at no more of a seed


class TensorMating:
    """Binary tournaments by dominance and crowding (Deb et al. 2002), then the operators it was given.

    Each generation's random numbers are those of a seed that the algorithm's own random state gives, so that a
    checkpoint holds no other state.

    Args:
        space: of the genes, on their device.
        crossover, mutation: how genes are crossed and mutated, and what share of them.
        device: where they lie.
    """

    def __init__(
        self, space: TensorSpace, crossover: SpaceCrossover, mutation: SpaceMutation, *, device: torch.device
    ) -> None:
        self._space = space
        self._crossover = crossover
        self._mutation = mutation
        self._rng = torch.Generator(device)

    def do(
        self,
        problem: GeneProblem,
        pop: Individuals,
        n_offsprings: int,
        *,
        random_state: np.random.Generator,
        **kwargs: Any,
    ) -> Individuals:
        """Up to so many offspring, as pymoo's algorithm asks for them."""
        self._rng.manual_seed(int(random_state.integers(_SEEDS)))
        X, F, crowding = pop.column("X"), pop.column("F"), pop.column("crowding")
        made = X[:0]
        for _ in range(ROUNDS):
            offspring = self._offspring(X, F, crowding, n_offsprings - len(made))
            made = torch.cat([made, offspring[are_new(offspring, torch.cat([X, made]))]])
            if len(made) >= n_offsprings:
                break
        return Individuals({"X": made[:n_offsprings]})

    def _offspring(self, X: torch.Tensor, F: torch.Tensor, crowding: torch.Tensor, count: int) -> torch.Tensor:
        matings = math.ceil(count / 2)
        parents = X[tournament_winners(F, crowding, 2 * matings, self._rng)].reshape(matings, 2, -1).transpose(0, 1)
        crossed = uniform((matings, 1), self._rng) < self._crossover.probability
        children = torch.where(crossed, self._space.crossover(parents, self._crossover.how, self._rng), parents)
        children = children.reshape(2 * matings, -1)
        mutated = uniform((2 * matings, 1), self._rng) <= self._mutation.probability
        children = torch.where(mutated, self._space.mutate(children, self._mutation.how, self._rng), children)
        return self._space.repair(children)


def tournament_winners(F: torch.Tensor, crowding: torch.Tensor, count: int, rng: torch.Generator) -> torch.Tensor:
    """int64 (count,): the better one of each pair; who dominates wins, then who is less crowded, then either.

    Everybody is drawn before anybody is drawn again, as in pymoo.
    """
    device = F.device
    size = len(F)
    turns = [torch.randperm(size, generator=rng, device=device) for _ in range(math.ceil(2 * count / size))]
    first, second = torch.cat(turns)[: 2 * count].reshape(count, 2).T
    better, worse = (F[first] < F[second]).any(dim=1), (F[first] > F[second]).any(dim=1)
    less_crowded, alike = crowding[first] > crowding[second], crowding[first] == crowding[second]
    decided = torch.where(better == worse, less_crowded, better)
    either = uniform((count,), rng) < 0.5
    return torch.where(torch.where((better == worse) & alike, either, decided), first, second)


def are_new(genes: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """bool (n,): rows of float64 (n, L) that are not among float64 (m, L) and not like a row before them.

    Found by hashes of 64 bits: once in 10^11 generations of 4,096 a child would be taken for a double, and made again.
    """
    hashes = torch.cat([row_hashes(known), row_hashes(genes)])
    ordered, order = hashes.sort(stable=True)
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return torch.empty_like(first).scatter_(0, order, first)[len(known) :]


def row_hashes(genes: torch.Tensor) -> torch.Tensor:
    """int64 (n,): a hash of the bits of each row of float64 (n, L).

    The bits of every gene are mixed by the last steps of SplitMix64 (Steele, Lea and Flood 2014) with the number of its
    column, and summed.
    """
    mixed = genes.contiguous().view(torch.int64) + torch.arange(1, genes.shape[1] + 1, device=genes.device) * _GOLDEN
    mixed = (mixed ^ _shifted(mixed, 30)) * _FIRST
    mixed = (mixed ^ _shifted(mixed, 27)) * _SECOND
    return (mixed ^ _shifted(mixed, 31)).sum(dim=1)


def _shifted(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Shifted to the right as numbers without a sign are."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)


# as signed numbers, which torch has alone
_GOLDEN, _FIRST, _SECOND = (each - 2**64 for each in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
