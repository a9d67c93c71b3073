"""Share of valid images, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_RESAMPLES = 10_000


@dataclass(frozen=True)
class ValidityRatio:
    """A share with the 95 % interval of its bootstrap; NaN for no images."""

    ratio: float
    low: float
    high: float


def validity_ratio(valid: NDArray[np.bool_], *, seed: int = 0) -> ValidityRatio:
    """Share of valid images with the percentile bootstrap's 95 % interval (Efron 1979).

    Args:
        valid: bool (N,).
        seed: of the resampling.
    """
    if len(valid) == 0:
        return ValidityRatio(np.nan, np.nan, np.nan)
    ratio = float(np.mean(valid))
    # drawing N times with replacement from zeros and ones is one binomial draw
    shares = np.random.default_rng(seed).binomial(len(valid), ratio, size=_RESAMPLES) / len(valid)
    low, high = np.quantile(shares, [0.025, 0.975])
    return ValidityRatio(ratio, float(low), float(high))
