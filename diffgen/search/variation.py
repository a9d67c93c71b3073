"""Crossover and mutation of latent vectors whose last gene may be a class.

pymoo's own simulated binary crossover and polynomial mutation do the continuous genes. A class has no order, so that it
is taken over from one of the parents and mutated by drawing another one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pymoo.operators.crossover.sbx import SBX
from pymoo.operators.mutation.pm import PM

from diffgen.search.problem import LatentProblem

Genes = np.ndarray[Any, Any]


class LatentCrossover(SBX):  # type: ignore[misc]
    """Simulated binary crossover (Deb and Agrawal 1995); each of the two children has the class of another parent.

    Args:
        probability: share of the matings that are crossed at all (pymoo's ``prob``).
        gene_probability: share of the genes that are crossed in such a mating (pymoo's ``prob_var``).
        eta: distribution index.
    """

    def __init__(self, *, probability: float, gene_probability: float, eta: float) -> None:
        super().__init__(prob=probability, prob_var=gene_probability, eta=eta)
        self.probability = probability

    def apply(self, problem: LatentProblem, X: Genes, rng: np.random.Generator) -> Genes:
        """The children of pairs of parents, float64 (2, matings, n_var) both; what ``do`` makes, without a population.

        Where nothing is crossed, the children are their parents.
        """
        crossed = rng.random(X.shape[1]) < self.probability
        if not crossed.any():
            return X.copy()
        return np.where(crossed[None, :, None], self._do(problem, X, random_state=rng), X)

    def _do(
        self, problem: LatentProblem, X: Genes, *args: Any, random_state: np.random.Generator, **kwargs: Any
    ) -> Genes:
        dim = problem.box.n_var
        children = super()._do(problem.box, X[..., :dim], *args, random_state=random_state, **kwargs)
        if problem.classes == 0:
            return children
        swapped = random_state.random(X.shape[1]) < 0.5
        classes = np.where(swapped, X[::-1, :, dim], X[:, :, dim])
        return np.concatenate([children, classes[..., None]], axis=2)


class LatentMutation(PM):  # type: ignore[misc]
    """Polynomial mutation (Deb and Goyal 1996); the class is replaced by one of the others.

    Args:
        probability: share of the individuals that are mutated at all (pymoo's ``prob``).
        gene_probability: share of the genes that are changed in such an individual (pymoo's ``prob_var``).
        class_probability: share of such individuals that are given another class.
        eta: distribution index.
    """

    def __init__(self, *, probability: float, gene_probability: float, class_probability: float, eta: float) -> None:
        super().__init__(prob=probability, prob_var=gene_probability, eta=eta)
        self.probability = probability
        self.class_probability = class_probability

    def apply(self, problem: LatentProblem, X: Genes, rng: np.random.Generator) -> Genes:
        """Mutated copies of float64 (N, n_var); what ``do`` makes, without a population."""
        mutated = self._do(problem, X, random_state=rng)
        return np.where((rng.random(len(X)) <= self.probability)[:, None], mutated, X)

    def _do(
        self, problem: LatentProblem, X: Genes, *args: Any, random_state: np.random.Generator, **kwargs: Any
    ) -> Genes:
        dim = problem.box.n_var
        mutated = super()._do(problem.box, X[:, :dim], *args, random_state=random_state, **kwargs)
        if problem.classes == 0:
            return mutated
        classes = X[:, dim].copy()
        if problem.classes > 1:
            rows = np.flatnonzero(random_state.random(len(X)) < self.class_probability)
            steps = random_state.integers(1, problem.classes, len(rows))
            classes[rows] = (classes[rows] + steps) % problem.classes
        return np.column_stack([mutated, classes])
