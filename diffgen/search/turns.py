"""Shares out a number of places among groups, in turns."""

from __future__ import annotations

import numpy as np

from diffgen.types import Int64Array


def turns(niches: Int64Array) -> Int64Array:
    """int64 (N,): for each individual, how many before it are of the same niche."""
    order = np.argsort(niches, kind="stable")
    ordered = niches[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(niches) else np.empty(0, np.int64)
    counts = np.diff(np.r_[starts, len(niches)])
    out = np.empty(len(niches), dtype=np.int64)
    out[order] = np.arange(len(niches)) - np.repeat(starts, counts)
    return out
