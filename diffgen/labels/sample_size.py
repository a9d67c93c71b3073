"""Computes how many pictures a person has to label to know a share within a margin of error."""

from __future__ import annotations

from math import ceil
from statistics import NormalDist


def sample_size(population: int, *, confidence: float, margin: float) -> int:
    """Pictures to draw so that any share in the population is known within ``margin``, in the worst case of one half.

    Cochran's formula with the correction for a finite population (Cochran 1977, Sampling Techniques, section 4.4).

    Args:
        population: pictures there are.
        confidence: 0.95 for a 95 % interval; between 0 and 1.
        margin: half the width of the interval; 0.05 for 5 points either way; between 0 and 1.

    Example:
        >>> sample_size(10_000, confidence=0.95, margin=0.05)
        370
    """
    if population == 0:
        return 0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    unlimited = z * z * 0.25 / margin**2
    return min(population, ceil(unlimited / (1 + (unlimited - 1) / population)))
