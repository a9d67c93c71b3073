"""pymoo operators that fit a latent space: sampling from the prior, keeping to its shell, finding doubles by hash."""

from __future__ import annotations

from typing import Any

import numpy as np
from pymoo.core.duplicate import DuplicateElimination
from pymoo.core.population import Population
from pymoo.core.repair import Repair
from pymoo.core.sampling import Sampling
from scipy.stats import chi

from diffgen.search.problem import LatentProblem

_SHELL_SHARE = 0.999  # share of the prior's vectors whose norm lies in the shell


class PriorSampling(Sampling):  # type: ignore[misc]
    """Initial latent vectors: N(0, 1) clipped to the bounds, or uniform between them; classes uniformly.

    Args:
        normal: whether the continuous genes are normal.
    """

    def __init__(self, *, normal: bool) -> None:
        super().__init__()
        self._normal = normal

    def _do(
        self, problem: LatentProblem, n_samples: int, *args: Any, random_state: np.random.Generator, **kwargs: Any
    ) -> np.ndarray[Any, Any]:
        box = problem.box
        if self._normal:
            genes = np.clip(random_state.standard_normal((n_samples, box.n_var)), box.xl, box.xu)
        else:
            genes = random_state.uniform(box.xl, box.xu, (n_samples, box.n_var))
        if problem.classes == 0:
            return genes
        return np.column_stack([genes, random_state.integers(problem.classes, size=n_samples)])


class ShellRepair(Repair):  # type: ignore[misc]
    """Scale a vector back whose norm a normal latent vector would almost never have; a class is left alone.

    The norm of N(0, 1)^d follows a chi distribution with d degrees of freedom; for d = 100 nearly all of it lies
    between 7.8 and 12.3. A generator has never seen a vector from elsewhere.
    """

    def _do(self, problem: LatentProblem, X: np.ndarray[Any, Any], **kwargs: Any) -> np.ndarray[Any, Any]:
        box = problem.box
        genes, classes = X[:, : box.n_var], X[:, box.n_var :]
        low, high = chi.interval(_SHELL_SHARE, box.n_var)
        norm = np.linalg.norm(genes, axis=1, keepdims=True)
        scale = np.clip(norm, low, high) / np.maximum(norm, 1e-12)
        # the bounds come last: scaling up may push a gene over them
        return np.column_stack([np.clip(genes * scale, box.xl, box.xu), classes])


class HashDuplicateElimination(DuplicateElimination):  # type: ignore[misc]
    """Individuals with the same genes, found by hashing in O(n); pymoo's own compares all pairs."""

    def _do(
        self, pop: Population, other: Population | None, is_duplicate: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, Any]:
        seen = set() if other is None else {individual.X.tobytes() for individual in other}
        for row, individual in enumerate(pop):
            key = individual.X.tobytes()
            is_duplicate[row] = key in seen
            if other is None:
                seen.add(key)
        return is_duplicate
