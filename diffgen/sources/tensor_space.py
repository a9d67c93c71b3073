"""Crossover, mutation and repair of latent vectors on tensors: what :mod:`diffgen.sources.space` does on arrays.

The formulas are those of pymoo's operators, so that equal random numbers give equal children up to rounding; the
random numbers are drawn where the genes lie.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from diffgen.sources.space import Box, Crossing, Mutating, NormalShell, Space, WithCategories

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


class TensorSpace:
    """A space of latent vectors, with or without categories, whose genes lie on a device.

    Args:
        inner: the continuous genes.
        categories: size of each categorical column after them.
        device: where genes lie.
    """

    def __init__(self, inner: Box, categories: tuple[int, ...], *, device: torch.device) -> None:
        self.continuous = inner.continuous
        self.categories = categories
        self.bounds = Bounds(
            torch.as_tensor(inner.low, dtype=torch.float64, device=device),
            torch.as_tensor(inner.high, dtype=torch.float64, device=device),
        )
        self._norms = inner.norms if isinstance(inner, NormalShell) else None

    def crossover(self, parents: torch.Tensor, how: Crossing, rng: torch.Generator) -> torch.Tensor:
        """The children of pairs of parents, float64 (2, pairs, length) both."""
        values = parents[..., : self.continuous]
        chosen, spread, exchanged = uniform((3, *values.shape[1:]), rng)
        children = simulated_binary_crossover(values, self.bounds, how, (chosen, spread, exchanged))
        if not self.categories:
            return children
        own = parents[..., self.continuous :]
        swapped = uniform(own.shape[1:], rng) < 0.5
        return torch.cat([children, torch.where(swapped, own.flip(0), own)], dim=2)

    def mutate(self, genes: torch.Tensor, how: Mutating, rng: torch.Generator) -> torch.Tensor:
        """Mutated copies of float64 (N, length)."""
        values = genes[:, : self.continuous]
        chosen, far = uniform((2, *values.shape), rng)
        columns = [polynomial_mutation(values, self.bounds, how, (chosen, far))]
        for number, size in enumerate(self.categories, start=self.continuous):
            own = genes[:, number]
            share, step = uniform((2, len(own)), rng)
            # any other category alike
            other = (own + 1 + (step * (size - 1)).floor()) % size
            columns.append(torch.where((share < how.category_probability) & (size > 1), other, own)[:, None])
        return torch.cat(columns, dim=1)

    def repair(self, genes: torch.Tensor) -> torch.Tensor:
        """Genes (N, length) brought back to where the source expects them."""
        values = genes[:, : self.continuous]
        if self._norms is not None:
            norm = torch.linalg.vector_norm(values, dim=1, keepdim=True)
            values = values * (norm.clamp(*self._norms) / norm.clamp(min=1e-12))
        columns = [values.clamp(self.bounds.low, self.bounds.high)]
        for number, size in enumerate(self.categories, start=self.continuous):
            columns.append(genes[:, number, None].round().clamp(0, size - 1))
        return torch.cat(columns, dim=1)


def tensor_space(space: Space, device: torch.device) -> TensorSpace | None:
    """The same space for genes on a device; None where it has ways of its own to cross, mutate or repair genes."""
    categories: tuple[int, ...] = ()
    if isinstance(space, WithCategories):
        if not _works_as(space, WithCategories):
            return None
        space, categories = space.inner, space.categories
    if not isinstance(space, Box) or not _works_as(space, NormalShell if isinstance(space, NormalShell) else Box):
        return None
    return TensorSpace(space, categories, device=device)


def _works_as(space: Space, kind: type[Space]) -> bool:
    """Whether a space of a kind has no ways of its own."""
    return all(getattr(type(space), name) is getattr(kind, name) for name in ("crossover", "mutate", "repair"))


def uniform(shape: tuple[int, ...], rng: torch.Generator) -> torch.Tensor:
    """float64 random numbers from 0 to 1, on the device of their generator."""
    return torch.rand(shape, generator=rng, dtype=torch.float64, device=rng.device)
