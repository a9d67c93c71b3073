"""Spaces of genes: what a search may do with genes without knowing what they stand for.

Genes are rows of numbers: continuous columns first, then categorical ones, which hold whole numbers from 0 on. A search
samples, crosses, mutates, repairs and mixes them; only a source knows what they draw.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pymoo.operators.crossover.sbx import SBX
from pymoo.operators.mutation.pm import PM
from scipy.special import gammaincinv

from diffgen.origins import NO_SEED
from diffgen.sources.draws import Draws, TorchDraws
from diffgen.types import Int64Array


@dataclass(frozen=True)
class LatentLayout:
    """The genes of a source; see :class:`diffgen.sources.space.Space`.

    Attributes:
        latent_dim: continuous values.
        classes: classes that can be asked for, of which the last value is one; or 0: there is no such value.
        prior: distribution of the continuous values, "normal" or "uniform"; for genes that no network takes, the name
            of their family.
        class_labels: the label that each class stands for, or None: its own number.
    """

    latent_dim: int
    classes: int
    prior: str
    class_labels: tuple[int, ...] | None = None

    @classmethod
    def read(cls, entry: object) -> LatentLayout:
        """What :meth:`as_dict` gave.

        Raises:
            KeyError, TypeError, ValueError: it is damaged.
        """
        if not isinstance(entry, Mapping):
            raise TypeError("it is not a table")
        labels = entry.get("class_labels")
        layout = cls(entry["latent_dim"], entry["classes"], entry["prior"], None if labels is None else tuple(labels))
        if not all(type(value) is int and value >= low for value, low in ((layout.latent_dim, 1), (layout.classes, 0))):
            raise ValueError("its numbers are none")
        if labels is not None and not (len(labels) == layout.classes and all(type(each) is int for each in labels)):
            raise ValueError("its labels are none")
        return layout

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)

    @property
    def length(self) -> int:
        """Values in one stored latent vector."""
        return self.latent_dim + (self.classes > 0)


Genes = NDArray[Any]

_SHELL_SHARE = 0.999  # share of the prior's vectors whose norm lies in the shell
_UNIFORM_BOUND = 1.0  # a uniform prior is U(-1, 1)


@dataclass(frozen=True)
class Crossing:
    """How two parents are crossed.

    Attributes:
        gene_probability: share of the continuous genes that are crossed.
        eta: distribution index of simulated binary crossover.
    """

    gene_probability: float
    eta: float


@dataclass(frozen=True)
class Mutating:
    """How genes are mutated.

    Attributes:
        gene_probability: share of the continuous genes that change; None: one in as many as there are.
        category_probability: share of the individuals that are given another category, column by column.
        eta: distribution index of polynomial mutation.
    """

    gene_probability: float | None
    category_probability: float
    eta: float


@dataclass(frozen=True)
class _Bounds:
    """Bounds of continuous genes, named as pymoo's operators look for them; float64 (n_var,)."""

    n_var: int
    xl: Genes
    xu: Genes


class Space(ABC):
    """A space of genes.

    Attributes:
        continuous: number of continuous columns.
        categories: size of each categorical column; they come after the continuous ones.
        real: whether its genes name real images, which a search then has to choose among.
    """

    continuous: int
    categories: tuple[int, ...] = ()
    real: bool = False

    @property
    def length(self) -> int:
        """Columns in all."""
        return self.continuous + len(self.categories)

    @property
    @abstractmethod
    def low(self) -> Genes:
        """float64 (length,): the lowest value of each column; may be infinite."""

    @property
    @abstractmethod
    def high(self) -> Genes:
        """float64 (length,): the highest value of each column."""

    @abstractmethod
    def sample(self, count: int, draws: Draws) -> Genes:
        """(count, length): random genes, as the source expects them."""

    def repair(self, genes: Genes) -> Genes:
        """Genes (N, length) brought back to where the source expects them; those that lie there stay as they are."""
        return np.clip(genes, self.low, self.high)

    @abstractmethod
    def crossover(self, parents: Genes, how: Crossing, rng: np.random.Generator) -> Genes:
        """The children of pairs of parents, float64 (2, pairs, length) both."""

    @abstractmethod
    def mutate(self, genes: Genes, how: Mutating, rng: np.random.Generator) -> Genes:
        """Mutated copies of float64 (N, length)."""

    def interpolate(self, start: torch.Tensor, end: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        """Genes on the straight way from ``start`` (share 0) to ``end`` (share 1); categories are those of the nearer.

        Args:
            start, end: float (..., length).
            share: float (..., 1), or what can be expanded to it.
        """
        mixed = start + share * (end - start)
        if not self.categories:
            return mixed
        nearer = torch.where(share < 0.5, start, end)
        return torch.cat([mixed[..., : self.continuous], nearer.expand_as(mixed)[..., self.continuous :]], dim=-1)

    def with_categories_of(self, genes: torch.Tensor, one: torch.Tensor) -> torch.Tensor:
        """Genes (N, length) with the categories of ``one``, (length,), in place of their own."""
        return torch.cat([genes[:, : self.continuous], one[self.continuous :].expand(len(genes), -1)], dim=1)

    def others_like(self, one: torch.Tensor, count: int, rng: torch.Generator) -> torch.Tensor:
        """float32 (count, length): random genes with the categories of ``one``, (length,)."""
        return self.with_categories_of(random_genes(self, count, rng), one)

    def seeds_of(self, genes: Genes) -> Int64Array:
        """int64 (N,): the row of the real image that a picture of genes (N, length) is made from, or ``NO_SEED``."""
        return np.full(len(genes), NO_SEED, dtype=np.int64)

    def features(self, genes: Genes) -> NDArray[np.float32]:
        """float32 (N, D): what a forest that learns from answers looks at, of genes (N, length)."""
        return genes.astype(np.float32)

    def learn(self, genes: Genes, worth: NDArray[np.float64]) -> None:  # noqa: B027
        """Take in what pictures were worth: a space may then draw others more often.

        Args:
            genes: (N, length).
            worth: float64 (N,): 1 for a new find that the jury recognises, less for another one, 0 for the rest.
        """

    def checkpoint(self) -> dict[str, Any]:
        """What it has learnt, as arrays by name."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Go on from what :meth:`checkpoint` gave; of a search that kept nothing, as if nothing was learnt."""

    def searched(self, prior: Literal["generator", "box"], bound: float) -> Space:
        """The part of this space that a search stays in; see ``prior`` of :class:`diffgen.config.SearchConfig`."""
        return self

    def frequencies(self, labels: Int64Array | None) -> NDArray[np.float64] | None:
        """How frequent each category is among the labels of real images; None where that means nothing here."""
        return None

    @abstractmethod
    def layout(self) -> LatentLayout:
        """What the columns are, as a run's manifest keeps it."""


class Box(Space):
    """Continuous genes between two bounds, sampled uniformly.

    Args:
        continuous: number of columns.
        bound: largest absolute value of each.
    """

    def __init__(self, continuous: int, bound: float = _UNIFORM_BOUND) -> None:
        self.continuous = continuous
        self._bound = bound

    @property
    def low(self) -> Genes:
        return np.full(self.continuous, -self._bound)

    @property
    def high(self) -> Genes:
        return np.full(self.continuous, self._bound)

    def sample(self, count: int, draws: Draws) -> Genes:
        return draws.uniform(count, self.low, self.high)

    def crossover(self, parents: Genes, how: Crossing, rng: np.random.Generator) -> Genes:
        operator = SBX(prob_var=how.gene_probability, eta=how.eta)
        return np.asarray(operator._do(self._bounds, parents, random_state=rng))

    def mutate(self, genes: Genes, how: Mutating, rng: np.random.Generator) -> Genes:
        each = 1 / self.continuous if how.gene_probability is None else how.gene_probability
        return np.asarray(PM(prob_var=each, eta=how.eta)._do(self._bounds, genes, random_state=rng))

    def searched(self, prior: Literal["generator", "box"], bound: float) -> Space:
        return Box(self.continuous, bound) if prior == "box" else self

    def layout(self) -> LatentLayout:
        return LatentLayout(self.continuous, 0, "uniform")

    @property
    def _bounds(self) -> _Bounds:
        return _Bounds(self.continuous, self.low, self.high)


class NormalShell(Box):
    """Genes that are N(0, 1) in training; a vector whose norm such genes would almost never have is scaled back.

    The norm of N(0, 1)^d follows a chi distribution with d degrees of freedom; for d = 100 nearly all of it lies
    between 7.8 and 12.3. A generator has never seen a vector from elsewhere.

    Args:
        continuous: number of columns.
        bound: largest absolute value of each; infinite for the prior itself.
    """

    def __init__(self, continuous: int, bound: float = np.inf) -> None:
        super().__init__(continuous, bound)

    def sample(self, count: int, draws: Draws) -> Genes:
        values = draws.normal(count, self.continuous)
        return values if np.isinf(self._bound) else np.clip(values, self.low, self.high)

    @property
    def norms(self) -> tuple[float, float]:
        """The smallest and the largest norm of a vector on the shell."""
        tail = (1 - _SHELL_SHARE) / 2
        # quantiles of the chi distribution as scipy.stats has them, which takes a second to import
        low, high = np.sqrt(2 * gammaincinv(self.continuous / 2, [tail, 1 - tail]))
        return float(low), float(high)

    def repair(self, genes: Genes) -> Genes:
        low, high = self.norms
        norm = np.linalg.norm(genes, axis=1, keepdims=True)
        scale = np.clip(norm, low, high) / np.maximum(norm, 1e-12)
        # the bounds come last: scaling up may push a gene over them
        return np.clip(genes * scale, self.low, self.high)

    def searched(self, prior: Literal["generator", "box"], bound: float) -> Space:
        return Box(self.continuous, bound) if prior == "box" else NormalShell(self.continuous, bound)

    def layout(self) -> LatentLayout:
        return LatentLayout(self.continuous, 0, "normal")


class WithCategories(Space):
    """Another space's genes, and categorical columns after them.

    A category has no order: it is taken over from one of the parents, and mutated by drawing another one.

    Args:
        inner: the space of the continuous genes.
        categories: size of each categorical column.
    """

    def __init__(self, inner: Space, categories: tuple[int, ...]) -> None:
        self.inner = inner
        self.continuous = inner.continuous
        self.categories = categories

    @property
    def low(self) -> Genes:
        return np.append(self.inner.low, [0.0] * len(self.categories))

    @property
    def high(self) -> Genes:
        return np.append(self.inner.high, [size - 1.0 for size in self.categories])

    def sample(self, count: int, draws: Draws) -> Genes:
        values = self.inner.sample(count, draws)
        columns = [draws.categories(count, size).astype(values.dtype) for size in self.categories]
        return np.column_stack([values, *columns])

    def repair(self, genes: Genes) -> Genes:
        dim = self.continuous
        columns = np.clip(np.rint(genes[:, dim:]), self.low[dim:], self.high[dim:])
        return np.column_stack([self.inner.repair(genes[:, :dim]), columns])

    def crossover(self, parents: Genes, how: Crossing, rng: np.random.Generator) -> Genes:
        dim = self.continuous
        children = self.inner.crossover(parents[..., :dim], how, rng)
        columns = []
        for column in range(dim, self.length):
            swapped = rng.random(parents.shape[1]) < 0.5
            columns.append(np.where(swapped, parents[::-1, :, column], parents[:, :, column]))
        return np.concatenate([children, np.stack(columns, axis=2)], axis=2)

    def mutate(self, genes: Genes, how: Mutating, rng: np.random.Generator) -> Genes:
        dim = self.continuous
        mutated = self.inner.mutate(genes[:, :dim], how, rng)
        columns = genes[:, dim:].copy()
        for number, size in enumerate(self.categories):
            if size > 1:
                rows = np.flatnonzero(rng.random(len(genes)) < how.category_probability)
                steps = rng.integers(1, size, len(rows))
                columns[rows, number] = (columns[rows, number] + steps) % size
        return np.column_stack([mutated, columns])

    def layout(self) -> LatentLayout:
        return self.inner.layout()


class WithClass(WithCategories):
    """Another space's genes and, as the last one, the class that the source is asked for.

    Args:
        inner: the space of the other genes.
        classes: how many there are.
        labels: the label that each class stands for; empty: its own number.
    """

    def __init__(self, inner: Space, classes: int, labels: tuple[int, ...] = ()) -> None:
        super().__init__(inner, (classes,))
        self.labels = labels

    def searched(self, prior: Literal["generator", "box"], bound: float) -> Space:
        return WithClass(self.inner.searched(prior, bound), self.categories[0], self.labels)

    def frequencies(self, labels: Int64Array | None) -> NDArray[np.float64] | None:
        if labels is None:
            return None
        stands_for = self.labels or range(self.categories[0])
        return np.array([(labels == label).sum() for label in stands_for], dtype=np.float64)

    def layout(self) -> LatentLayout:
        inner = self.inner.layout()
        return LatentLayout(inner.latent_dim, self.categories[0], inner.prior, self.labels or None)


def latent_space(
    latent_dim: int, prior: Literal["normal", "uniform"], classes: int = 0, labels: tuple[int, ...] = ()
) -> Space:
    """The space of a network's latent vectors: ``prior`` is N(0, 1) or U(-1, 1); ``classes`` make the last gene."""
    values = NormalShell(latent_dim) if prior == "normal" else Box(latent_dim)
    return WithClass(values, classes, labels) if classes else values


def random_genes(space: Space, count: int, rng: torch.Generator) -> torch.Tensor:
    """float32 (count, space.length): random genes from a stream of torch's."""
    return torch.from_numpy(space.sample(count, TorchDraws(rng)).astype(np.float32, copy=False))
