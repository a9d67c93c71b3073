"""Whether figures of two ways differ, and by how much. One figure a run: resampled subsets of one run are no runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike

from diffgen.metrics.intervals import CONFIDENCE


@dataclass(frozen=True)
class Comparison:
    """Outcome of a test.

    Attributes:
        p_value: two-sided.
        a12: Vargha and Delaney's effect size, the chance that a figure of the first way is the larger one.
    """

    statistic: float
    p_value: float
    a12: float


def a12(first: ArrayLike, second: ArrayLike) -> float:
    """Vargha and Delaney's A12: chance that a figure of ``first`` exceeds one of ``second``, ties counting half.

    Returns:
        0..1, 0.5 for no difference; NaN when either is empty.
    """
    from scipy.stats import rankdata

    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if len(x) == 0 or len(y) == 0:
        return np.nan
    ranks = float(rankdata(np.concatenate([x, y]))[: len(x)].sum())
    return (ranks / len(x) - (len(x) + 1) / 2) / len(y)


def mann_whitney(first: ArrayLike, second: ArrayLike) -> Comparison:
    """Mann and Whitney's U test of independent runs, at least one figure of each way, two-sided."""
    from scipy.stats import mannwhitneyu

    found = mannwhitneyu(first, second, alternative="two-sided")
    return Comparison(float(found.statistic), float(found.pvalue), a12(first, second))


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


def mean_over_runs(figures: Sequence[float]) -> tuple[float, float] | None:
    """Ends of Student's interval of the mean of a figure over runs, of which each gives one figure.

    It takes the figures of runs with different seeds for independent and about normally distributed, and may end
    outside of what is possible for them, such as beyond 1 for a share.

    Args:
        figures: one of each run.

    Returns:
        None for fewer than two runs, from which nothing can be known of the others.
    """
    if len(figures) < 2:
        return None
    reach = (
        float(scipy.stats.t.ppf((1 + CONFIDENCE) / 2, len(figures) - 1))
        * float(np.std(figures, ddof=1))
        / len(figures) ** 0.5
    )
    middle = float(np.mean(figures))
    return middle - reach, middle + reach
