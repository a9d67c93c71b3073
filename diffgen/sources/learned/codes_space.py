"""The space of the codes of an auto-encoder: what real images have for codes, and what lies between them."""

from __future__ import annotations

import numpy as np

from diffgen.sources.draws import Draws
from diffgen.sources.layout import LatentLayout
from diffgen.sources.space import Box, Genes

NORMAL_BOUND = 4.0  # of 15,000 values of N(0, 1) one lies beyond
_FARTHEST = 0.5  # share of the way to another image: from the middle on it would be the other one that is changed


class Codes(Box):
    """Continuous genes between the least and the largest that real images have.

    Args:
        low, high: float (length,), the bounds.
        known: float (N, length), codes of real images. Genes are drawn on the way from one of them towards another, at
            most half of it: codes that form a map are nothing like independent, and drawn one by one they are no
            picture. None: genes are drawn from N(0, 1), which such codes are trained to follow.
    """

    def __init__(self, low: Genes, high: Genes, known: Genes | None) -> None:
        super().__init__(len(low))
        self._low, self._high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        self._known = known

    @classmethod
    def among(cls, known: Genes, *, normal: bool) -> Codes:
        """The space of codes of which some are known, (N, length); ``normal`` says that they follow N(0, 1)."""
        low, high = known.min(axis=0), known.max(axis=0)
        if normal:
            return cls(np.minimum(low, -NORMAL_BOUND), np.maximum(high, NORMAL_BOUND), None)
        return cls(low, high, known)

    @property
    def low(self) -> Genes:
        return self._low

    @property
    def high(self) -> Genes:
        return self._high

    def sample(self, count: int, draws: Draws) -> Genes:
        """(count, length): random genes; see the class."""
        if self._known is None:
            return self.repair(draws.normal(count, self.continuous))
        size = len(self._known)
        start, end = (self._known[draws.categories(count, size).astype(np.int64)] for _ in range(2))
        share = draws.uniform(count, np.zeros(1), np.full(1, _FARTHEST))
        mixed = start + share * (end - start)
        return self.repair(mixed.astype(share.dtype, copy=False))

    def searched(self, prior: str, bound: float) -> Codes:
        """All of it: its bounds are those of the real images already."""
        return self

    def layout(self) -> LatentLayout:
        return LatentLayout(self.continuous, 0, "codes")
