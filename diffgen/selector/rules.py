"""Ways to make one classifier of several; "selector" is ours, the others are there to compare with."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from diffgen.types import Float32Array, Int64Array

Rule = Literal["selector", "soft-vote", "confidence", "oracle"]
RULES: tuple[str, ...] = get_args(Rule)


def soft_vote(answers: Float32Array) -> Int64Array:
    """int64 (N,): the class with the highest mean of all models' probabilities, float32 (N, M, K)."""
    return answers.sum(axis=1).argmax(axis=1).astype(np.int64)


def most_confident(answers: Float32Array) -> Int64Array:
    """int64 (N,): the model with the highest probability of any, the first of those as sure; float32 (N, M, K)."""
    return answers.max(axis=2).argmax(axis=1).astype(np.int64)


def who_is_right(said: Int64Array, truth: Int64Array) -> Int64Array:
    """int64 (N,): the first model that is right, 0 where none is, for int64 (N, M); the best choice there is."""
    return (said == truth[:, None]).argmax(axis=1).astype(np.int64)
