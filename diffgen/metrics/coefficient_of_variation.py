"""Measures how much a figure varies over runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def coefficient_of_variation(figures: ArrayLike) -> float:
    """Standard deviation (of a sample) over the absolute mean, for one figure a run.

    Returns:
        0 or more; NaN for fewer than two runs; inf for a mean of 0, unless all are 0, which gives 0.
    """
    values = np.asarray(figures, dtype=np.float64)
    if len(values) < 2:
        return np.nan
    spread, mean = float(values.std(ddof=1)), abs(float(values.mean()))
    if spread == 0:
        return 0.0
    return spread / mean if mean else np.inf
