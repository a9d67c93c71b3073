"""Which behaviours a search has met, how often, and when it last met a new one.

They are counted among all triggers: which of them are valid is known only after the search.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from diffgen.metrics.richness import chao1
from diffgen.types import Int64Array


class Behaviours:
    """Counts of (labels of the models, cell)."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, ...], int] = {}
        self._width = 0
        self.latest_query = 0

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, keys: Int64Array, *, query: int) -> None:
        """Count triggers.

        Args:
            keys: int64 (N, M + 1), the labels of the M models and the cell of each.
            query: queries asked when they were found.
        """
        before = len(self._counts)
        self._width = keys.shape[1]
        for key in map(tuple, keys.tolist()):
            self._counts[key] = self._counts.get(key, 0) + 1
        if len(self._counts) > before:
            self.latest_query = query

    def estimate(self) -> float:
        """How many there are in all, as far as can be told (Chao1)."""
        return chao1(np.fromiter(self._counts.values(), dtype=np.int64, count=len(self._counts)))

    def checkpoint(self) -> dict[str, Any]:
        """The counts as arrays and JSON values."""
        return {
            "behaviours": np.array(list(self._counts), dtype=np.int64).reshape(len(self._counts), self._width),
            "behaviour_counts": np.array(list(self._counts.values()), dtype=np.int64),
            "behaviour_query": self.latest_query,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`checkpoint` gave."""
        self._width = state["behaviours"].shape[1]
        keys, counts = state["behaviours"].tolist(), state["behaviour_counts"].tolist()
        self._counts = dict(zip(map(tuple, keys), counts, strict=True))
        self.latest_query = int(state["behaviour_query"])
