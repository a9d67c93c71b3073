"""pymoo's mating on arrays, without a Python call for every individual.

With the same random state it makes the same offspring as ``pymoo.core.mating.Mating``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pymoo.util.misc import random_permutations

from diffgen.search.individuals import Column, Individuals
from diffgen.search.operators import SpaceCrossover, SpaceMutation, SpaceRepair
from diffgen.search.problem import GeneProblem

ROUNDS = 100  # as pymoo's NSGA2 tries


class ArrayMating:
    """Binary tournaments by dominance and crowding (Deb et al. 2002), then the operators it was given.

    An offspring with the genes of another one, or of a parent, is made again.
    """

    def __init__(self, crossover: SpaceCrossover, mutation: SpaceMutation) -> None:
        self.crossover = crossover
        self.mutation = mutation
        self.repair = SpaceRepair()

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
        return self._made(problem, pop, n_offsprings, random_state)

    def _made(self, problem: GeneProblem, pop: Individuals, count: int, rng: np.random.Generator) -> Individuals:
        return Individuals.unasked(self._genes(problem, pop, count, rng))

    def _genes(self, problem: GeneProblem, pop: Individuals, count: int, rng: np.random.Generator) -> Column:
        """Up to ``count`` genes, in as many rounds at most as it may take to make enough of them."""
        X, F, crowding = pop.get("X"), pop.get("F"), pop.get("crowding")
        made = FreshGenes(X)
        for _ in range(ROUNDS):
            made.take(self._offspring(problem, X, F, crowding, count - len(made.rows), rng))
            if len(made.rows) >= count:
                break
        return made.first(count)

    def _offspring(
        self, problem: GeneProblem, X: Column, F: Column, crowding: Column, count: int, rng: np.random.Generator
    ) -> Column:
        matings = math.ceil(count / 2)
        parents = tournament_winners(F, crowding, 2 * matings, rng).reshape(matings, 2)
        children = self.crossover.apply(problem, X[parents.T], rng)
        mutated = self.mutation.apply(problem, children.reshape(-1, X.shape[1]), rng)
        return np.asarray(self.repair._do(problem, mutated, random_state=rng))


class FreshGenes:
    """Genes that nobody had before, in the order in which they were made.

    Args:
        known: float64 (N, n_var), genes that are there already.

    Attributes:
        rows: the genes.
    """

    def __init__(self, known: Column) -> None:
        self._length = known.shape[1]
        self._seen = {genes.tobytes() for genes in known}
        self.rows: list[Column] = []

    def first(self, count: int) -> Column:
        """float64 (at most ``count``, n_var)."""
        return np.array(self.rows[:count]).reshape(-1, self._length)

    def take(self, genes: Column) -> list[bytes]:
        """Take in what is new of float64 (N, n_var); gives the bytes of each that is."""
        fresh = []
        for row in genes:
            key = row.tobytes()
            if key not in self._seen:
                self._seen.add(key)
                self.rows.append(row)
                fresh.append(key)
        return fresh


def tournament_winners(F: Column, crowding: Column, count: int, rng: np.random.Generator) -> Column:
    """int64 (count,): the better one of each pair; who dominates wins, then who is less crowded, then either."""
    if count == 0:
        return np.empty(0, dtype=np.int64)
    permutations = math.ceil(2 * count / len(F))
    pairs = random_permutations(permutations, len(F), random_state=rng)[: 2 * count].reshape(count, 2)
    first, second = pairs.T
    better, worse = (F[first] < F[second]).any(axis=1), (F[first] > F[second]).any(axis=1)
    # equal, or each better in one objective: crowding decides
    undecided = better == worse
    first_wins = np.where(undecided, crowding[first] > crowding[second], better)
    winners = np.where(first_wins, first, second)
    for row in np.flatnonzero(undecided & (crowding[first] == crowding[second])):
        winners[row] = rng.choice([first[row], second[row]])
    return winners


def niche_winners(niche: Column, F: Column, crowding: Column, count: int, rng: np.random.Generator) -> Column:
    """int64 (count,): of a niche drawn evenly among all, the better one of two of its members drawn at random."""
    order = np.argsort(niche, kind="stable")
    _, starts, sizes = np.unique(niche[order], return_index=True, return_counts=True)
    drawn = rng.integers(len(starts), size=count)
    picks = starts[drawn, None] + (rng.random((count, 2)) * sizes[drawn, None]).astype(np.int64)
    first, second = order[picks].T
    better, worse = (F[first] < F[second]).any(axis=1), (F[first] > F[second]).any(axis=1)
    return np.where(np.where(better == worse, crowding[first] >= crowding[second], better), first, second)
