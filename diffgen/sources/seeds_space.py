"""The genes of a real image with operators: the image, the operators one after the other, and their strengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from diffgen.sources.draws import Draws
from diffgen.sources.layout import LatentLayout
from diffgen.sources.operators import STRENGTHS
from diffgen.sources.space import Box, Genes, Mutating, Space, WithCategories

Weights = NDArray[np.float64]

_FOUND = 0.3  # factor of the weight of a seed for each of its triggers
_OTHER_SEED = 0.5  # share of what is mutated that gets another seed


class SeedsAndOperators(WithCategories):
    """Strengths, then the row of the seed, the row of another image, and the operator of every step.

    The strengths of every step are continuous from -1 to 1. Any step but the first may do nothing, its operator then
    is the number of operators; half of what is drawn does, so that single operators are as frequent as composed ones.

    Args:
        rows: number of seeds.
        operators: number of operators.
        steps: operators that are applied to an image, one after the other, at most.
        weights: float64 (rows,), how often each seed is drawn against the others, by a search; None: all alike.
    """

    real = True

    def __init__(self, rows: int, operators: int, steps: int, weights: Weights | None = None) -> None:
        super().__init__(Box(STRENGTHS * steps), (rows, rows, operators, *[operators + 1] * (steps - 1)))
        self.steps = steps
        self.operators = operators
        self._weights = np.ones(rows) if weights is None else weights
        self._finds = np.zeros(rows, dtype=np.int64)

    @property
    def _drawn(self) -> Weights:
        """float64 (rows,): how often each seed is drawn by now."""
        return self._weights * _FOUND ** np.minimum(self._finds, 30)

    def learn(self, genes: Genes, found: NDArray[np.bool_]) -> None:
        """Another picture of a seed that has triggered is mostly a near-duplicate."""
        seeds = np.rint(genes[found, self.continuous]).astype(np.int64)
        self._finds += np.bincount(seeds, minlength=len(self._finds))

    def checkpoint(self) -> dict[str, Any]:
        return {"seed_finds": self._finds}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._finds = np.array(state.get("seed_finds", np.zeros_like(self._finds)))

    def searched(self, prior: Literal["generator", "box"], bound: float) -> Space:
        """A search of its own: what it learns is no other's."""
        return SeedsAndOperators(self.categories[0], self.operators, self.steps, self._weights)

    def sample(self, count: int, draws: Draws) -> Genes:
        """Random genes; the draws say whether some seeds go before others."""
        values = self.inner.sample(count, draws)
        rows, others = draws.preferred(count, self._drawn), draws.categories(count, self.categories[1])
        # numbers beyond the operators' stand for none
        chosen = [draws.categories(count, self.operators)]
        chosen += [
            np.minimum(draws.categories(count, 2 * self.operators), self.operators) for _ in range(self.steps - 1)
        ]
        return np.column_stack([values, *(each.astype(values.dtype) for each in (rows, others, *chosen))])

    def mutate(self, genes: Genes, how: Mutating, rng: np.random.Generator) -> Genes:
        """As for any categories; but half of all get another seed, one of those that are drawn often.

        Another strength on the same seed mostly gives a near-duplicate; what worked on one seed may work on another.
        """
        mutated = super().mutate(genes, how, rng)
        column = self.continuous
        other = rng.random(len(genes)) < _OTHER_SEED
        changed = np.flatnonzero(other | (mutated[:, column] != genes[:, column]))
        shares = self._drawn / self._drawn.sum()
        mutated[changed, column] = rng.choice(self.categories[0], size=len(changed), p=shares)
        return mutated

    def layout(self) -> LatentLayout:
        return LatentLayout(self.continuous, 0, "seeds")
