"""Stacking (Wolpert 1992): a logistic regression that makes one label of what all models answer.

It is what a selector of three models or more is compared with: it asks all of them, and learns from the same labelled
triggers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from diffgen.types import Float32Array, Int64Array

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
