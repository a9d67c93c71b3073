"""Several sources as one: every row of genes says which of them draws it, so that one population can hold all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.origins import Origins
from diffgen.sources.base import Source
from diffgen.sources.draws import Draws
from diffgen.sources.layout import LatentLayout, PartLayout
from diffgen.sources.space import Crossing, Genes, Mutating, Space
from diffgen.types import Int64Array


class MixedSpace(Space):
    """The genes of all parts side by side, and the number of the part that draws as the last category.

    The columns of other parts than that one are zero, so that equal pictures have equal genes.

    Args:
        parts: name and space of each.
        opened: numbers of the parts that draw pictures by now; shared with the source, which adds to it.
    """

    def __init__(self, parts: dict[str, Space], opened: list[int]) -> None:
        self.parts = parts
        self._spaces = tuple(parts.values())
        self._opened = opened
        self.continuous = sum(each.continuous for each in self._spaces)
        self.categories = (*(size for each in self._spaces for size in each.categories), len(self._spaces))
        self.columns = tuple(self._columns(number) for number in range(len(self._spaces)))
        self.real = any(each.real for each in self._spaces)

    def _columns(self, number: int) -> Int64Array:
        """int64: the columns of a part, in its own order."""
        before, own = self._spaces[:number], self._spaces[number]
        first = sum(each.continuous for each in before)
        category = self.continuous + sum(len(each.categories) for each in before)
        return np.r_[first : first + own.continuous, category : category + len(own.categories)].astype(np.int64)

    @property
    def part_count(self) -> int:
        return len(self._spaces)

    @property
    def opened(self) -> tuple[int, ...]:
        return tuple(sorted(self._opened))

    @property
    def low(self) -> Genes:
        return np.minimum(0.0, self._joined([each.low for each in self._spaces], 0.0))

    @property
    def high(self) -> Genes:
        return np.maximum(0.0, self._joined([each.high for each in self._spaces], len(self._spaces) - 1.0))

    def _joined(self, values: list[Genes], last: float) -> Genes:
        made = np.full(self.length, last)
        for columns, own in zip(self.columns, values, strict=True):
            made[columns] = own
        return made

    def part_of(self, genes: Genes) -> Int64Array:
        numbers = np.rint(np.nan_to_num(genes[..., -1])).astype(np.int64)
        return np.clip(numbers, 0, len(self._spaces) - 1)

    def placed(self, number: int, own: Genes) -> Genes:
        """(N, length): genes of one part, as genes of all."""
        genes = np.zeros((len(own), self.length), dtype=own.dtype)
        genes[:, self.columns[number]] = own
        genes[:, -1] = number
        return genes

    def _grouped(self, numbers: Int64Array) -> Iterator[tuple[int, Int64Array]]:
        """Each part with the rows that are its own, where it has any."""
        for number in range(len(self._spaces)):
            rows = np.flatnonzero(numbers == number)
            if len(rows):
                yield number, rows

    def sample(self, count: int, draws: Draws) -> Genes:
        """As many of each part that is opened, on the average."""
        opened = np.array(self.opened)
        if len(opened) == 1:
            return self.sample_part(int(opened[0]), count, draws)
        numbers = opened[np.asarray(draws.categories(count, len(opened))).astype(np.int64)]
        # of each part as many as there are rows, so that a row does not depend on how the others fell
        drawn = {number: self.sample_part(number, count, draws) for number in self.opened}
        genes = drawn[int(opened[0])]
        for number, rows in self._grouped(numbers):
            genes[rows] = drawn[number][rows]
        return genes

    def sample_part(self, number: int, count: int, draws: Draws) -> Genes:
        return self.placed(number, self._spaces[number].sample(count, draws))

    def repair(self, genes: Genes) -> Genes:
        made = np.zeros_like(genes)
        for number, rows in self._grouped(self.part_of(genes)):
            made[rows] = self.placed(number, self._spaces[number].repair(genes[np.ix_(rows, self.columns[number])]))
        return made

    def crossover(self, parents: Genes, how: Crossing, rng: np.random.Generator) -> Genes:
        """Two of one part are crossed by it; the children of two of different parts are copies."""
        children = parents.copy()
        first, second = self.part_of(parents[0]), self.part_of(parents[1])
        for number, pairs in self._grouped(np.where(first == second, first, -1)):
            block = np.ix_(np.arange(2), pairs, self.columns[number])
            children[block] = self._spaces[number].crossover(parents[block], how, rng)
        return children

    def mutate(self, genes: Genes, how: Mutating, rng: np.random.Generator) -> Genes:
        mutated = genes.copy()
        for number, rows in self._grouped(self.part_of(genes)):
            block = np.ix_(rows, self.columns[number])
            mutated[block] = self._spaces[number].mutate(genes[block], how, rng)
        return mutated

    def interpolate(self, start: torch.Tensor, end: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        """There is no way from part to part: between those every stop is the nearer end."""
        mixed = super().interpolate(start, end, share)
        nearer = torch.where(share < 0.5, start, end).expand_as(mixed)
        return torch.where(start[..., -1:] == end[..., -1:], mixed, nearer)

    def others_like(self, one: torch.Tensor, count: int, rng: torch.Generator) -> torch.Tensor:
        number = int(self.part_of(one[None].numpy())[0])
        own = self._spaces[number].others_like(one[torch.from_numpy(self.columns[number])], count, rng)
        return torch.from_numpy(self.placed(number, own.numpy()))

    def seeds_of(self, genes: Genes) -> Int64Array:
        seeds = np.empty(len(genes), dtype=np.int64)
        for number, rows in self._grouped(self.part_of(genes)):
            seeds[rows] = self._spaces[number].seeds_of(genes[np.ix_(rows, self.columns[number])])
        return seeds

    def learn(self, genes: Genes, worth: NDArray[np.float64]) -> None:
        for number, rows in self._grouped(self.part_of(genes)):
            self._spaces[number].learn(genes[np.ix_(rows, self.columns[number])], worth[rows])

    def checkpoint(self) -> dict[str, Any]:
        return {
            f"{name}.{key}": value for name, space in self.parts.items() for key, value in space.checkpoint().items()
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        for name, space in self.parts.items():
            own = f"{name}."
            space.restore({key.removeprefix(own): value for key, value in state.items() if key.startswith(own)})

    def searched(self, prior: Literal["generator", "box"], bound: float) -> Space:
        return MixedSpace({name: each.searched(prior, bound) for name, each in self.parts.items()}, self._opened)

    def layout(self) -> LatentLayout:
        parts = []
        for name, space in self.parts.items():
            own = space.layout()
            parts.append(PartLayout(name, space.continuous, space.categories, own.classes, own.class_labels))
        return LatentLayout(self.continuous, 0, "mixed", parts=tuple(parts))


class MixedSource:
    """See :class:`diffgen.sources.base.Source`.

    Args:
        parts: name -> source, or the space of one that joins later; the first is there from the beginning.
        device: where images are wanted.
    """

    def __init__(self, parts: dict[str, Source | Space], *, device: torch.device) -> None:
        self._names = tuple(parts)
        self._sources = [None if isinstance(each, Space) else each for each in parts.values()]
        self._device = device
        self._opened = [number for number, each in enumerate(self._sources) if each is not None]
        spaces = {name: each if isinstance(each, Space) else each.space for name, each in parts.items()}
        self.space = MixedSpace(spaces, self._opened)
        first = self._sources[0]
        assert first is not None
        self.image_shape = first.image_shape

    def join(self, name: str, source: Source) -> None:
        """A part that was missing draws from now on.

        Raises:
            ValueError: its genes are not those that were kept free for it.
        """
        number = self._names.index(name)
        kept, own = self.space.parts[name], source.space
        if (kept.continuous, kept.categories) != (own.continuous, own.categories):
            raise ValueError(f"The genes of {name} are not those that were kept free for it.")
        self._sources[number] = source
        if number not in self._opened:
            self._opened.append(number)

    def part(self, number: int) -> Source:
        """The source that draws for a part.

        Raises:
            ValueError: it is not there yet.
        """
        source = self._sources[number]
        if source is None:
            raise ValueError(f"The source {self._names[number]} does not draw yet.")
        return source

    def draw(self, genes: torch.Tensor) -> torch.Tensor:
        """uint8 (N, C, H, W) for float32 (N, space.length)."""
        images = torch.empty((len(genes), *self.image_shape), dtype=torch.uint8, device=self._device)
        for number, rows in self._grouped(genes):
            own = genes[rows][:, torch.from_numpy(self.space.columns[number])]
            images[rows.to(self._device)] = self.part(number).draw(own).to(self._device)
        return images

    def origins(self, genes: torch.Tensor) -> Origins:
        """Those of the parts that make images from real ones; nothing for the rest."""
        seeds = Origins.drawn(len(genes)).seeds.copy()
        recipes = [""] * len(genes)
        for number, rows in self._grouped(genes):
            own = self.part(number).origins(genes[rows][:, torch.from_numpy(self.space.columns[number])])
            if own is not None:
                seeds[rows.numpy()] = own.seeds
                for row, recipe in zip(rows.tolist(), own.recipes, strict=True):
                    recipes[row] = recipe
        return Origins(seeds, tuple(recipes))

    def _grouped(self, genes: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
        numbers = self.space.part_of(genes.cpu().numpy())
        for number in np.unique(numbers).tolist():
            yield number, torch.from_numpy(np.flatnonzero(numbers == number))
