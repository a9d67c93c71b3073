"""Streams of random numbers that a space of genes samples from."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

Values = NDArray[Any]


class Draws(Protocol):
    """Random numbers, each call the next ones; arrays of floats or whole numbers."""

    def normal(self, count: int, columns: int) -> Values:
        """(count, columns) from N(0, 1)."""
        ...

    def uniform(self, count: int, low: Values, high: Values) -> Values:
        """(count, len(low)), each column uniform between its bounds."""
        ...

    def categories(self, count: int, size: int) -> Values:
        """(count,): whole numbers from 0 to ``size`` - 1."""
        ...

    def preferred(self, count: int, weights: Values) -> Values:
        """(count,): whole numbers from 0 to ``len(weights)`` - 1, as often as their weights say.

        A search prefers some of them; where nothing is searched, all are drawn alike.
        """
        ...


class NumpyDraws:
    """float64 from a numpy generator; what a search begins with."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def normal(self, count: int, columns: int) -> Values:
        return self._rng.standard_normal((count, columns))

    def uniform(self, count: int, low: Values, high: Values) -> Values:
        return self._rng.uniform(low, high, (count, len(low)))

    def categories(self, count: int, size: int) -> Values:
        return self._rng.integers(size, size=count)

    def preferred(self, count: int, weights: Values) -> Values:
        return _by_weight(self._rng.random(count), weights)


class TorchDraws:
    """float32 from a generator of torch's; what random genes come from."""

    def __init__(self, rng: torch.Generator) -> None:
        self._rng = rng

    def normal(self, count: int, columns: int) -> Values:
        return np.asarray(torch.randn(count, columns, generator=self._rng).numpy())

    def uniform(self, count: int, low: Values, high: Values) -> Values:
        values = torch.rand(count, len(low), generator=self._rng).numpy()
        return np.asarray(values * (high - low).astype(np.float32) + low.astype(np.float32))

    def categories(self, count: int, size: int) -> Values:
        # a column of its own, as float32 has it
        return np.asarray(torch.randint(size, (count, 1), generator=self._rng).to(torch.float32).numpy()[:, 0])

    def preferred(self, count: int, weights: Values) -> Values:
        return _by_weight(torch.rand(count, generator=self._rng, dtype=torch.float64).numpy(), weights)


class UnsearchedDraws:
    """float32 that no search draws, whatever its seed, with the categories as frequent as they are said to be.

    A search draws with torch's generator, which on the CPU looks at 32 bits of a seed only, so that two seeds may mean
    one stream. This one draws with numpy's PCG64, seeded through ``SeedSequence``. Values and categories have streams
    of their own: where there is one column of categories, how many rows are drawn at once changes nothing.

    Args:
        seed: 0 or more.
        weights: how frequent each category of a column is, or None: all are equally frequent.
    """

    def __init__(self, seed: int, weights: Values | None = None) -> None:
        values, categories = np.random.SeedSequence(seed).spawn(2)
        self._values, self._categories = np.random.default_rng(values), np.random.default_rng(categories)
        self._weights = weights

    def normal(self, count: int, columns: int) -> Values:
        return self._values.standard_normal((count, columns), dtype=np.float32)

    def uniform(self, count: int, low: Values, high: Values) -> Values:
        shares = self._values.random((count, len(low)), dtype=np.float32)
        return shares * (high - low).astype(np.float32) + low.astype(np.float32)

    def categories(self, count: int, size: int) -> Values:
        return _by_weight(self._categories.random(count), np.ones(size) if self._weights is None else self._weights)

    def preferred(self, count: int, weights: Values) -> Values:
        return _by_weight(self._categories.random(count), np.ones(len(weights)))


def _by_weight(shares: Values, weights: Values) -> Values:
    """Whole numbers as often as their weights say, for numbers from 0 to 1."""
    bounds = np.cumsum(weights / (weights.sum() or 1.0))
    # side "right": a category without weight has an interval of no length, which no number lies in
    return np.searchsorted(bounds[:-1], shares, side="right")
