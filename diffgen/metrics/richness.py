"""How many kinds there are, seen and not seen."""

from __future__ import annotations

from diffgen.types import Int64Array


def chao1(counts: Int64Array) -> float:
    """Chao's estimate of the number of kinds, bias-corrected (Chao 1984; Chao and Chiu 2016).

    S + f1 (f1 - 1) / (2 (f2 + 1)), with S kinds seen, f1 of them once and f2 twice. It is a lower bound for draws that
    do not depend on each other. A search that looks for more of the same sees few kinds only once, so that there it
    says what this search would still find, not what exists.

    Args:
        counts: int64 (S,), how often each kind was seen; zeros are left out.
    """
    counts = counts[counts > 0]
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return len(counts) + once * (once - 1) / (2 * (twice + 1))
