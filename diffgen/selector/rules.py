"""Ways to make one classifier of several; "selector" is ours, the others are there to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

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


_PASSES = 1_000


@dataclass(frozen=True)
class Stacking:
    """A fitted regression, on the answers of all models side by side."""

    regression: Any

    @classmethod
    def fit(cls, answers: Float32Array, labels: Int64Array) -> Stacking | None:
        """From float32 (N, M, K) and int64 (N,); None where all pictures show one thing."""
        from sklearn.linear_model import LogisticRegression

        if len(np.unique(labels)) < 2:
            return None
        return cls(LogisticRegression(max_iter=_PASSES).fit(answers.reshape(len(answers), -1), labels))

    def labels(self, answers: Float32Array) -> Int64Array:
        """int64 (N,): what the pictures show, for float32 (N, M, K)."""
        return np.asarray(self.regression.predict(answers.reshape(len(answers), -1)), dtype=np.int64)
