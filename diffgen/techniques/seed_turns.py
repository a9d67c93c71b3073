"""The order in which real images are mutated: each once, in random order, then all again in another order."""

from __future__ import annotations

import numpy as np

from diffgen.types import Int64Array


class SeedTurns:
    """Hands out rows of the real images, one after the other and without end.

    Args:
        rows: int64 (n,), of the seeds; n >= 1.
        seed: of the order.

    Attributes:
        taken: how many were handed out; the whole state.
    """

    def __init__(self, rows: Int64Array, seed: int) -> None:
        self._rows, self._seed = rows, seed
        self.taken = 0

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, count: int) -> Int64Array:
        """int64 (count,): the next rows."""
        turns, places = np.divmod(np.arange(self.taken, self.taken + count), len(self._rows))
        self.taken += count
        found = np.empty(count, dtype=np.int64)
        for turn in np.unique(turns).tolist():
            order = np.random.default_rng([self._seed, 1, turn]).permutation(self._rows)
            found[turns == turn] = order[places[turns == turn]]
        return found
