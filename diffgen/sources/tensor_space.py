"""Crossover, mutation and repair of genes that are tensors: those of the space, or on a GPU the same formulas there.

The formulas are those of pymoo's operators, so that equal random numbers give equal children up to rounding; on a GPU
the random numbers are drawn where the genes lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from diffgen.sources.space import Box, Crossing, Mutating, NormalShell, Space, WithCategories

_SEEDS = 2**32  # torch's generator on the processor looks at no more of a seed
_ALIKE = 1e-14  # parents whose genes are nearer than this are not crossed, as in pymoo


@dataclass(frozen=True)
class Bounds:
    """The lowest and the highest value of continuous genes, float64 (n_var,) each."""

    low: torch.Tensor
    high: torch.Tensor


def simulated_binary_crossover(
    parents: torch.Tensor, bounds: Bounds, how: Crossing, draws: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """The children of pairs of parents (Deb and Agrawal 1995, with bounds as in Deb's own code and pymoo's ``SBX``).

    Args:
        parents: float64 (2, pairs, n_var).
        bounds: of the genes.
        how: share of the genes that are crossed, and distribution index.
        draws: float64 (pairs, n_var) from 0 to 1 each: which genes are crossed, how far, and which are exchanged.

    Returns:
        float64 (2, pairs, n_var).
    """
    first, second = parents
    chosen, spread, exchanged = draws
    lower, upper = torch.minimum(first, second), torch.maximum(first, second)
    crossed = (chosen < how.gene_probability) & (upper - lower > _ALIKE) & (bounds.low != bounds.high)
    # where nothing is crossed the formula would divide by zero
    distance = torch.where(crossed, upper - lower, 1.0)
    middle = lower + upper
    below = 0.5 * (middle - _spread(1 + 2 * (lower - bounds.low) / distance, how.eta, spread) * distance)
    above = 0.5 * (middle + _spread(1 + 2 * (bounds.high - upper) / distance, how.eta, spread) * distance)
    swapped = exchanged < 0.5
    children = torch.stack([torch.where(swapped, above, below), torch.where(swapped, below, above)])
    return torch.where(crossed, children, parents).clamp(bounds.low, bounds.high)


def _spread(beta: torch.Tensor, eta: float, draws: torch.Tensor) -> torch.Tensor:
    """How far apart children lie against their parents: the quantile ``draws`` of a distribution that a bound ends."""
    alpha = 2.0 - beta.pow(-(eta + 1.0))
    base = torch.where(draws <= 1.0 / alpha, draws * alpha, 1.0 / (2.0 - draws * alpha))
    return base.pow(1.0 / (eta + 1.0))


def polynomial_mutation(
    genes: torch.Tensor, bounds: Bounds, how: Mutating, draws: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """Mutated copies (Deb and Goyal 1996, with bounds as in pymoo's ``PM``).

    Args:
        genes: float64 (N, n_var).
        bounds: of the genes.
        how: share of the genes that change, and distribution index.
        draws: float64 (N, n_var) from 0 to 1 each: which genes change, and how far.
    """
    each = 1 / genes.shape[1] if how.gene_probability is None else how.gene_probability
    chosen, far = draws
    changed = (chosen < each) & (bounds.low != bounds.high)
    width = bounds.high - bounds.low
    down = far <= 0.5
    # from the nearer bound as a share of the width; the power makes small steps likely
    room = 1.0 - torch.where(down, genes - bounds.low, bounds.high - genes) / width
    share = torch.where(down, 2.0 * far, 2.0 * (1.0 - far))
    power = (share + (1.0 - share) * room.pow(how.eta + 1.0)).pow(1.0 / (how.eta + 1.0))
    step = torch.where(down, power - 1.0, 1.0 - power)
    return torch.where(changed, genes + step * width, genes).clamp(bounds.low, bounds.high)


class GeneOperators(Protocol):
    """What a search does to genes, float64 tensors that lie on ``device``."""

    device: torch.device

    def crossover(self, parents: torch.Tensor, how: Crossing, rng: np.random.Generator) -> torch.Tensor:
        """The children of pairs of parents, float64 (2, pairs, length) both."""
        ...

    def mutate(self, genes: torch.Tensor, how: Mutating, rng: np.random.Generator) -> torch.Tensor:
        """Mutated copies of float64 (N, length)."""
        ...

    def repair(self, genes: torch.Tensor) -> torch.Tensor:
        """Genes (N, length) brought back to where the source expects them."""
        ...


def gene_operators(space: Space, device: torch.device) -> GeneOperators:
    """The operators of a space: on a CUDA device for latent vectors, with or without categories, else on the processor.

    Genes of real images stay there, since what is done to their pictures is done there, and so do those of a space with
    ways of its own to cross, mutate or repair them.
    """
    inner = space.inner if isinstance(space, WithCategories) else space
    usual = (WithCategories, Box, NormalShell)
    own = any(
        not any(getattr(type(each), name) is getattr(kind, name) for kind in usual)
        for each in (space, inner)
        for name in ("crossover", "mutate", "repair")
    )
    if device.type != "cuda" or space.real or own or not isinstance(inner, Box):
        return SpaceOperators(space)
    return TensorSpace(inner, space.categories, device=device)


class SpaceOperators:
    """Those of the space itself, on the processor."""

    device = torch.device("cpu")

    def __init__(self, space: Space) -> None:
        self._space = space

    def crossover(self, parents: torch.Tensor, how: Crossing, rng: np.random.Generator) -> torch.Tensor:
        return torch.from_numpy(self._space.crossover(parents.numpy(), how, rng))

    def mutate(self, genes: torch.Tensor, how: Mutating, rng: np.random.Generator) -> torch.Tensor:
        return torch.from_numpy(self._space.mutate(genes.numpy(), how, rng))

    def repair(self, genes: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(self._space.repair(genes.numpy()))


class TensorSpace:
    """A space of latent vectors, with or without categories, whose genes lie on a device.

    What is drawn there is seeded by the search's own random state, so that a checkpoint holds no other.

    Args:
        inner: the continuous genes.
        categories: size of each categorical column after them.
        device: where genes lie.
    """

    def __init__(self, inner: Box, categories: tuple[int, ...], *, device: torch.device) -> None:
        self.device, self.continuous, self.categories = device, inner.continuous, categories
        self._rng = torch.Generator(device)
        self.bounds = Bounds(
            torch.as_tensor(inner.low, dtype=torch.float64, device=device),
            torch.as_tensor(inner.high, dtype=torch.float64, device=device),
        )
        self._norms = inner.norms if isinstance(inner, NormalShell) else None

    def crossover(self, parents: torch.Tensor, how: Crossing, rng: np.random.Generator) -> torch.Tensor:
        values = parents[..., : self.continuous]
        self._rng.manual_seed(int(rng.integers(_SEEDS)))
        chosen, spread, exchanged = self._uniform((3, *values.shape[1:]))
        children = simulated_binary_crossover(values, self.bounds, how, (chosen, spread, exchanged))
        if not self.categories:
            return children
        own = parents[..., self.continuous :]
        swapped = self._uniform(own.shape[1:]) < 0.5
        return torch.cat([children, torch.where(swapped, own.flip(0), own)], dim=2)

    def mutate(self, genes: torch.Tensor, how: Mutating, rng: np.random.Generator) -> torch.Tensor:
        values = genes[:, : self.continuous]
        self._rng.manual_seed(int(rng.integers(_SEEDS)))
        chosen, far = self._uniform((2, *values.shape))
        columns = [polynomial_mutation(values, self.bounds, how, (chosen, far))]
        for number, size in enumerate(self.categories, start=self.continuous):
            own = genes[:, number]
            share, step = self._uniform((2, len(own)))
            # any other category alike
            other = (own + 1 + (step * (size - 1)).floor()) % size
            columns.append(torch.where((share < how.category_probability) & (size > 1), other, own)[:, None])
        return torch.cat(columns, dim=1)

    def repair(self, genes: torch.Tensor) -> torch.Tensor:
        values = genes[:, : self.continuous]
        if self._norms is not None:
            norm = torch.linalg.vector_norm(values, dim=1, keepdim=True)
            values = values * (norm.clamp(*self._norms) / norm.clamp(min=1e-12))
        columns = [values.clamp(self.bounds.low, self.bounds.high)]
        for number, size in enumerate(self.categories, start=self.continuous):
            columns.append(genes[:, number, None].round().clamp(0, size - 1))
        return torch.cat(columns, dim=1)

    def _uniform(self, shape: tuple[int, ...]) -> torch.Tensor:
        """float64 random numbers from 0 to 1."""
        return torch.rand(shape, generator=self._rng, dtype=torch.float64, device=self.device)
