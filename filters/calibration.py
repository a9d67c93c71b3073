"""Thresholds from one number that a user can judge: the share of real images that all filters together reject."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diffgen.types import Float32Array
from diffgen.wording import percent


@dataclass(frozen=True)
class Calibration:
    """Thresholds of F filters, and what they do to the held-out real images they were found on.

    Attributes:
        rate: the false-alarm rate that was asked for, 0..1.
        thresholds: float32 (F,), lowest scores that pass.
        given: bool (F,), thresholds that were given and not found.
        scores: float32 (n, F) of the held-out real images.
    """

    rate: float
    thresholds: Float32Array
    given: NDArray[np.bool_]
    scores: Float32Array

    @property
    def alone(self) -> Float32Array:
        """float32 (F,): share of the held-out real images that each filter rejects by itself; NaN for no images."""
        return _share(self._rejected)

    @property
    def together(self) -> float:
        """Share that at least one filter rejects; NaN for no images."""
        return float(self._rejected.any(axis=1).mean()) if len(self.scores) else float("nan")

    @property
    def _rejected(self) -> NDArray[np.bool_]:
        return np.asarray(self.scores < self.thresholds)

    def origin(self, index: int) -> str:
        """One sentence: where the threshold of a filter comes from."""
        count, alone = len(self.scores), float(self.alone[index])
        if self.given[index]:
            return f"The threshold was given; it rejects {percent(alone)} of {count} held-out real images."
        return (
            f"The threshold was found on {count} held-out real images: it rejects {percent(alone)} of them, all "
            f"filters together {percent(self.together)} ({self.rate:.1%} were asked for)."
        )


def calibrate(scores: Float32Array, given: Sequence[float], rate: float) -> Calibration:
    """Find the thresholds at which all filters together reject at most a stated share of real images.

    What given thresholds reject comes first. The others are raised together, so that each by itself rejects equally
    many images, as far as the stated share of all images allows; an image that several reject is counted once. There
    is no such room when the given thresholds use up the share; the others then reject none of the held-out images.

    Args:
        scores: float32 (n, F), n at least 1, of real images that no filter has been fitted to.
        given: F thresholds, NaN where one is to be found.
        rate: largest share that may be rejected, 0 or more and below 1.

    Raises:
        ValueError: no images, or scores that are no numbers.
    """
    if len(scores) == 0 or np.isnan(scores).any():
        raise ValueError("calibration needs the scores of at least one real image, and no NaN among them")
    fixed = ~np.isnan(np.asarray(given, dtype=np.float64))
    thresholds = np.asarray(given, dtype=np.float32)
    ordered = np.sort(scores[:, ~fixed], axis=0)
    rejected = (scores[:, fixed] < thresholds[fixed]).any(axis=1)
    allowed = np.floor(rate * len(scores) + 1e-9)  # 0.05 * 1000 is a little more than 50, others are a little less

    def count(depth: int) -> int:
        return int((rejected | (scores[:, ~fixed] < ordered[depth]).any(axis=1)).sum())

    low, high = 0, len(scores) - 1
    while low < high:  # the count grows with the depth
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(middle) <= allowed else (low, middle - 1)
    thresholds[~fixed] = ordered[low]
    return Calibration(rate, thresholds, fixed, scores)


def _share(rejected: NDArray[np.bool_]) -> Float32Array:
    if len(rejected) == 0:
        return np.full(rejected.shape[1], np.nan, dtype=np.float32)
    return np.asarray(rejected.mean(axis=0), dtype=np.float32)
