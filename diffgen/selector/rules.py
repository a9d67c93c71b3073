"""Ways to make one classifier of two; "selector" is ours, the others are there to compare with."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from diffgen.types import Float32Array, Int64Array

Rule = Literal["selector", "soft-vote", "confidence", "oracle"]
RULES: tuple[str, ...] = get_args(Rule)


def soft_vote(a: Float32Array, b: Float32Array) -> Int64Array:
    """int64 (N,): the class with the highest mean of both models' probabilities, float32 (N, K) each."""
    return (a + b).argmax(axis=1).astype(np.int64)


def most_confident(a: Float32Array, b: Float32Array) -> Int64Array:
    """int64 (N,): 0 where A's highest probability is at least B's, 1 elsewhere."""
    return (b.max(axis=1) > a.max(axis=1)).astype(np.int64)


def who_is_right(a: Int64Array, b: Int64Array, truth: Int64Array) -> Int64Array:
    """int64 (N,): 1 where B alone is right, 0 elsewhere; the best choice there is."""
    return ((b == truth) & (a != truth)).astype(np.int64)
