"""How far a classifier's probabilities are from how often it is right."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special  # scipy.stats takes half a second to import

from diffgen.metrics.intervals import CONFIDENCE
from diffgen.types import Float32Array, Int64Array

BINS = 15


def calibration_error(confidence: Float32Array, right: NDArray[np.bool_]) -> float:
    """Expected calibration error with 15 equal bins (Guo et al. 2017, On Calibration of Modern Neural Networks), 0..1.

    Args:
        confidence: float32 (N,), the highest probability of each answer; N >= 1.
        right: bool (N,), whether that label is the true one.
    """
    bins, gaps = _binned(confidence, right)
    return float(np.abs(np.bincount(bins, weights=gaps, minlength=BINS)).sum() / len(gaps))


def calibration_rise_interval(confidence: Float32Array, right: NDArray[np.bool_]) -> tuple[float, float]:
    """Ends of the 95 % interval of the second classifier's calibration error less that of the first, -1..1.

    The error of few images is too large: in each bin, chance alone leaves a gap, and its size is added up. So the lower
    end takes from one half of the images which way each of the second one's bins errs, and from the other half by how
    much (and the reverse), which is no larger than the true error on average; of the first one it takes the error as it
    is. The upper end is made with the two exchanged. Both are differences of paired images, whose mean is widened as
    in :func:`diffgen.metrics.intervals.paired_difference_interval`.

    Args:
        confidence: float32 (N, 2), the highest probability of each answer; N >= 1.
        right: bool (N, 2), whether that label is the true one.
    """
    (first_most, first_least), (second_most, second_least) = (
        _shares(*_binned(confidence[:, column], right[:, column])) for column in (0, 1)
    )
    low, _ = _mean_interval(second_least - first_most)
    _, high = _mean_interval(second_most - first_least)
    return low, high


def _binned(confidence: Float32Array, right: NDArray[np.bool_]) -> tuple[Int64Array, NDArray[np.float64]]:
    """The bin of each answer, and by how much it was less sure than right."""
    # a confidence on the border of two bins belongs to the lower one, as in the paper
    bins = np.clip(np.ceil(confidence.astype(np.float64) * BINS) - 1, 0, BINS - 1).astype(np.int64)
    return bins, right.astype(np.float64) - confidence


def _shares(bins: Int64Array, gaps: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What each answer adds to the error, float64 (N,): as the error is defined, and by the other half's signs."""

    def sign(chosen: slice) -> NDArray[np.float64]:
        return np.sign(np.bincount(bins[chosen], weights=gaps[chosen], minlength=BINS))

    even, odd = slice(0, None, 2), slice(1, None, 2)
    least = np.empty_like(gaps)
    least[even], least[odd] = (sign(other)[bins[own]] * gaps[own] for own, other in ((even, odd), (odd, even)))
    return sign(slice(None))[bins] * gaps, least


def _mean_interval(differences: NDArray[np.float64]) -> tuple[float, float]:
    """Of differences in -1..1, with half a case of each end and one of 0 added (Agresti and Min 2005)."""
    total = len(differences) + 2
    middle = float(differences.sum()) / total
    error = math.sqrt((float((differences**2).sum()) + 1) - total * middle**2) / total
    reach = float(special.ndtri((1 + CONFIDENCE) / 2)) * error
    return max(-1.0, middle - reach), min(1.0, middle + reach)
