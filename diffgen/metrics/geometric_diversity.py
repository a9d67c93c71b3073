"""Geometric diversity of a set of images (Aghababaeyan et al. 2023, DeepGD; Kulesza and Taskar 2012)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def geometric_diversity(features: NDArray[np.floating]) -> float:
    """Log-determinant of the Gram matrix of the features: twice the log of the volume that the vectors span.

    The published code takes the absolute value of it, which makes a set of near-copies (a large negative value) look
    diverse; here the sign is kept. Comparable only between sets of one size and one kind of features.

    Args:
        features: float (N, D), one row an image; scaled as the caller wants them compared.

    Returns:
        the log-determinant; -inf where the rows are linearly dependent (always so for N > D), 0 for no rows.
    """
    if len(features) == 0:
        return 0.0
    if len(features) > features.shape[1]:
        return -np.inf
    # singular values of V instead of a determinant of V V^T: half the digits would be lost in squaring
    singular = np.linalg.svd(np.asarray(features, dtype=np.float64), compute_uv=False)
    if singular[-1] <= singular[0] * np.finfo(np.float64).eps * max(features.shape):
        return -np.inf
    return float(2 * np.log(singular).sum())
