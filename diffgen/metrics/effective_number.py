"""Effective number of kinds: how many equally frequent ones would be as diverse (Hill 1973, order 1)."""

from __future__ import annotations

import numpy as np

from diffgen.types import Int64Array


def effective_number(kinds: Int64Array) -> float:
    """Exponential of the entropy of the kinds' frequencies.

    Args:
        kinds: int64 (N,) or (N, D); equal entries, or equal rows, are one kind. Label pairs are rows of two, behaviours
            rows of three.

    Returns:
        between 1 and the number of different kinds; 0 for no entries.
    """
    if len(kinds) == 0:
        return 0.0
    counts = np.unique(kinds, axis=0, return_counts=True)[1]
    shares = counts / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))
