"""How far answers are apart, and how much of that goes; with an interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special  # scipy.stats takes half a second to import

from diffgen.sampling import random_rows
from diffgen.types import Float32Array, Int64Array

Float64Array = NDArray[np.float64]
_LEAST = 1e-4  # a probability that counts: 8 bits leave hardly less
_TOP, _REST = 32, 32  # tested pictures: those on which the models differ most, and others, which stand for all the rest
PICTURES = _TOP + _REST
_ALPHA = 0.05
_CORRELATED = 0.05


def distances(one: Float32Array, other: Float32Array) -> Float32Array:
    """float32 (N,): total variation between answers, from 0 to 1."""
    return np.asarray(np.abs(one - other).sum(axis=1) / 2, dtype=np.float32)


def differing(one: Float32Array, other: Float32Array) -> int:
    """On how many pictures the labels differ."""
    return int((one.argmax(axis=1) != other.argmax(axis=1)).sum())


def correlation_lost(one: Float32Array, other: Float32Array) -> Float32Array:
    """float32 (N,): 1 less the correlation of log-probabilities, and a little that two equal answers have, too.

    It also falls where both models are sure of different classes; and it is the same when one is surer throughout.
    """
    logs = [np.log(each + _LEAST) for each in (one, other)]
    a, b = (each - each.mean(axis=1, keepdims=True) for each in logs)
    together = (a * b).sum(axis=1) / np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1) + 1e-12)
    return np.asarray(np.maximum(0, 1 - together) + _CORRELATED, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Unseen:
    """Pictures that had no part in choosing a cause.

    Attributes:
        rows: int64 (n,), those on which the models differ most, and some of the rest.
        weights: float64 (n,), how many pictures each stands for.
    """

    rows: Int64Array
    weights: Float64Array

    @classmethod
    def among(cls, rows: Int64Array, apart: Float32Array) -> Unseen:
        order = np.argsort(-apart, kind="stable")
        top, rest = rows[order[:_TOP]], rows[np.sort(order[_TOP:])]
        some = rest[random_rows(len(rest), _REST)]
        each = len(rest) / max(1, len(some))
        return cls(np.concatenate([top, some]), np.concatenate([np.ones(len(top)), np.full(len(some), each)]))

    def interval(self, before: Float32Array, after: Float32Array, tests: int) -> tuple[float, float, float]:
        """The share of a difference that goes, and an interval for the worst of so many tests: low, share, high.

        A ratio of weighted sums of paired values, by its linearisation (Cochran, Sampling Techniques, 3rd ed., 6.4).

        Args:
            before, after: float32 (n,), distances on these pictures.
        """
        total, count = float(self.weights @ before), len(before)
        if total <= 0 or count < 2:
            return -1.0, 0.0, 1.0  # nothing is known
        share = 1 - float(self.weights @ after) / total
        residual = self.weights * ((before - after) - share * before)
        error = float(np.sqrt(count / (count - 1) * (residual**2).sum())) / total
        reach = float(special.stdtrit(count - 1, 1 - _ALPHA / (2 * tests))) * error
        return max(-1.0, share - reach), share, min(1.0, share + reach)
