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
from diffgen.types import Int64Array

Weights = NDArray[np.float64]

_BELIEF = 2.0  # pictures that the mean of all seeds speaks for, where a seed is judged by its own
_OTHER_SEED = 0.9  # share of what is mutated that gets another seed; more of seeds that promise less than the mean


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
        self._worth = np.zeros(rows)
        self._tries = np.zeros(rows, dtype=np.int64)

    def _promise(self) -> Weights:
        """float64 (rows,): what the next picture of each seed is worth, as a multiple of the mean of all.

        The mean of a Beta posterior whose prior has that mean.
        """
        mean = (1 + self._worth.sum()) / (2 + self._tries.sum())
        return np.asarray((_BELIEF + self._worth / mean) / (_BELIEF + self._tries))

    def seeds_of(self, genes: Genes) -> Int64Array:
        return np.rint(genes[:, self.continuous]).astype(np.int64)

    def learn(self, genes: Genes, worth: NDArray[np.float64]) -> None:
        """A seed promises what it kept: some show new behaviours again and again, of others all pictures are alike."""
        rows, seeds = len(self._tries), self.seeds_of(genes)
        self._worth += np.bincount(seeds, worth, minlength=rows)
        self._tries += np.bincount(seeds, minlength=rows)

    def checkpoint(self) -> dict[str, Any]:
        return {"seed_worth": self._worth, "seed_tries": self._tries}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._worth, self._tries = np.array(state["seed_worth"]), np.array(state["seed_tries"])

    def searched(self, prior: Literal["generator", "box"], bound: float) -> Space:
        """A search of its own: what it learns is no other's."""
        return SeedsAndOperators(self.categories[0], self.operators, self.steps, self._weights)

    def sample(self, count: int, draws: Draws) -> Genes:
        """Random genes; the draws say whether some seeds go before others."""
        values = self.inner.sample(count, draws)
        rows = draws.preferred(count, self._weights * self._promise())
        others = draws.categories(count, self.categories[1])
        # numbers beyond the operators' stand for none
        chosen = [draws.categories(count, self.operators)]
        chosen += [
            np.minimum(draws.categories(count, 2 * self.operators), self.operators) for _ in range(self.steps - 1)
        ]
        return np.column_stack([values, *(each.astype(values.dtype) for each in (rows, others, *chosen))])

    def mutate(self, genes: Genes, how: Mutating, rng: np.random.Generator) -> Genes:
        """As for any categories; but nearly all get another seed, one of those that are drawn often.

        Another strength on the same seed mostly gives a near-duplicate; what worked on one seed may work on another.
        """
        mutated = super().mutate(genes, how, rng)
        column, promise = self.continuous, self._promise()
        kept = (1 - _OTHER_SEED) * np.minimum(1, promise[self.seeds_of(genes)])
        other = rng.random(len(genes)) >= kept
        changed = np.flatnonzero(other | (mutated[:, column] != genes[:, column]))
        shares = self._weights * promise
        mutated[changed, column] = rng.choice(self.categories[0], size=len(changed), p=shares / shares.sum())
        return mutated

    def layout(self) -> LatentLayout:
        return LatentLayout(self.continuous, 0, "seeds")
