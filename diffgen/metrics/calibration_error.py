"""How far a classifier's probabilities are from how often it is right."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from diffgen.types import Float32Array

BINS = 15


def calibration_error(confidence: Float32Array, right: NDArray[np.bool_]) -> float:
    """Expected calibration error with 15 equal bins (Guo et al. 2017, On Calibration of Modern Neural Networks), 0..1.

    Args:
        confidence: float32 (N,), the highest probability of each answer; N >= 1.
        right: bool (N,), whether that label is the true one.
    """
    # a confidence on the border of two bins belongs to the lower one, as in the paper
    bins = np.clip(np.ceil(confidence.astype(np.float64) * BINS) - 1, 0, BINS - 1).astype(np.int64)
    counts = np.bincount(bins, minlength=BINS)
    gaps = np.bincount(bins, weights=right.astype(np.float64) - confidence, minlength=BINS)
    return float(np.abs(gaps).sum() / counts.sum())
