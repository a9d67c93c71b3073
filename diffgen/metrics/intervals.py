"""How sure a share, a difference of two shares, a mean over runs, or a largest value is: 95 % intervals.

An interval says how far an estimate may be from what it estimates. A share of a random sample has one; a share of all
that there is, such as the valid ones among the triggers of one run, has none, since it is no estimate. Only several
runs can tell how much a figure changes from run to run: what was found within one run does not stand for other runs.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special  # scipy.stats takes half a second to import

from diffgen.types import Int64Array

CONFIDENCE = 0.95


def exact_interval(count: int, of: int) -> tuple[float, float]:
    """Ends of the exact interval of a share (Clopper and Pearson 1934), 0..1; it covers the true share in 95 % or more.

    Args:
        of: size of the random sample; 0 gives (0, 1), since nothing is known.
    """
    return clustered_interval(count, of, 1)


def clustered_interval(count: float, of: float, design_effect: float) -> tuple[float, float]:
    """Ends of the interval of a share whose cases come in clumps (Korn and Graubard 1998), 0..1.

    Clopper and Pearson's interval, taken as if ``design_effect`` cases were worth one (Kish 1965); with 1 it is
    :func:`exact_interval`.

    Args:
        count: how many of them, at most ``of``.
        of: how many there are; 0 gives (0, 1).
        design_effect: variance of the count over that of independent cases, 1 or more.
    """
    if of <= 0:
        return 0.0, 1.0
    found, total, tail = count / design_effect, of / design_effect, (1 - CONFIDENCE) / 2
    low = 0.0 if count <= 0 else float(special.betaincinv(found, total - found + 1, tail))
    high = 1.0 if count >= of else float(special.betaincinv(found + 1, total - found, 1 - tail))
    return low, high


def reach_of_mean(squares: float, count: int) -> float:
    """Half of the 95 % interval of a mean (Student's t), of two values or more.

    Args:
        squares: sum of the squares of their distances to the mean.
    """
    error = math.sqrt(squares / (count * (count - 1)))
    return float(special.stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * error


def paired_difference_interval(only_first: int, only_second: int, of: int) -> tuple[float, float]:
    """Ends of the interval of (only_first - only_second) / of, where both were asked about the same things.

    Agresti and Min (2005): half a case is added to each of the four cells of the table, then Wald's interval is taken.
    It needs only the cells in which the two differ.

    Args:
        only_first, only_second: for how many only the first, only the second holds.
        of: how many there are; 0 gives (-1, 1).
    """
    if of == 0:
        return -1.0, 1.0
    first, second, total = only_first + 0.5, only_second + 0.5, of + 2
    middle = (first - second) / total
    error = math.sqrt((first + second) - (first - second) ** 2 / total) / total
    reach = float(special.ndtri((1 + CONFIDENCE) / 2)) * error
    return max(-1.0, middle - reach), min(1.0, middle + reach)


def simultaneous_paired_intervals(
    only_first: Int64Array, only_second: Int64Array, of: Int64Array, *, among: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ends of :func:`paired_difference_interval` for many groups, all of which hold at once with 95 % confidence.

    Bonferroni: each of ``among`` intervals is one of 1 - 0.05 / ``among``; with 1 they are those of single groups.

    Args:
        only_first, only_second, of: int64 (G,), as there; ``of`` is 1 or more.
        among: how many groups are looked at; those given may be some of them.

    Returns:
        Lower and upper ends, float64 (G,), -1..1.
    """
    first, second, total = only_first + 0.5, only_second + 0.5, of + 2.0
    middle = (first - second) / total
    error = np.sqrt((first + second) - (first - second) ** 2 / total) / total
    reach = float(special.ndtri(1 - (1 - CONFIDENCE) / (2 * among))) * error
    return np.maximum(middle - reach, -1.0), np.minimum(middle + reach, 1.0)


def share_beyond_largest(of: int) -> float:
    """Largest share of all images whose value can lie above the largest of ``of`` drawn ones, with 95 % confidence.

    1 - 0.05^(1/n), about 3 / n (Wilks 1941; the "rule of three").
    """
    return 1.0 if of == 0 else 1 - (1 - CONFIDENCE) ** (1 / of)
