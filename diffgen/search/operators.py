"""pymoo's operators on a space of genes: sampling, repair, crossover, mutation.

What they do to genes is the space's own (:mod:`diffgen.sources.space`); here they get pymoo's form, with the shares of
matings and of individuals that they are applied to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pymoo.core.crossover import Crossover
from pymoo.core.mutation import Mutation
from pymoo.core.repair import Repair
from pymoo.core.sampling import Sampling

from diffgen.search.problem import GeneProblem
from diffgen.sources.draws import NumpyDraws
from diffgen.sources.space import Crossing, Genes, Mutating


class SpaceSampling(Sampling):  # type: ignore[misc]
    """Random genes of the problem's space."""

    def _do(
        self, problem: GeneProblem, n_samples: int, *args: Any, random_state: np.random.Generator, **kwargs: Any
    ) -> Genes:
        return problem.space.sample(n_samples, NumpyDraws(random_state))


class SpaceRepair(Repair):  # type: ignore[misc]
    """Genes brought back into the problem's space."""

    def _do(self, problem: GeneProblem, X: Genes, **kwargs: Any) -> Genes:
        return problem.space.repair(X)


class SpaceCrossover(Crossover):  # type: ignore[misc]
    """The space's crossover of some of the matings.

    Args:
        probability: share of the matings that are crossed at all (pymoo's ``prob``).
        how: of those.
    """

    def __init__(self, probability: float, how: Crossing) -> None:
        super().__init__(2, 2, prob=probability)
        self.probability = probability
        self.how = how

    def apply(self, problem: GeneProblem, X: Genes, rng: np.random.Generator) -> Genes:
        """The children of pairs of parents, float64 (2, matings, n_var) both; what ``do`` makes, without a population.

        Where nothing is crossed, the children are their parents.
        """
        crossed = np.asarray(rng.random(X.shape[1]) < self.probability)
        if not crossed.any():
            return X.copy()
        return np.where(crossed[None, :, None], problem.space.crossover(X, self.how, rng), X)

    def _do(
        self, problem: GeneProblem, X: Genes, *args: Any, random_state: np.random.Generator, **kwargs: Any
    ) -> Genes:
        return problem.space.crossover(X, self.how, random_state)


class SpaceMutation(Mutation):  # type: ignore[misc]
    """The space's mutation of some of the individuals.

    Args:
        probability: share of the individuals that are mutated at all (pymoo's ``prob``).
        how: of those.
    """

    def __init__(self, probability: float, how: Mutating) -> None:
        super().__init__(prob=probability)
        self.probability = probability
        self.how = how

    def apply(self, problem: GeneProblem, X: Genes, rng: np.random.Generator) -> Genes:
        """Mutated copies of float64 (N, n_var); what ``do`` makes, without a population."""
        mutated = problem.space.mutate(X, self.how, rng)
        return np.where((rng.random(len(X)) <= self.probability)[:, None], mutated, X)

    def _do(
        self, problem: GeneProblem, X: Genes, *args: Any, random_state: np.random.Generator, **kwargs: Any
    ) -> Genes:
        return problem.space.mutate(X, self.how, random_state)
