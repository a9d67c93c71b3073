"""The divergence of the paper."""

from __future__ import annotations

from itertools import combinations

import torch


def euclidean_plus_one(probabilities: torch.Tensor) -> torch.Tensor:
    """Euclidean distance of the probability vectors, + 1 when the labels differ (paper, Eq. 1).

    With more than two models the largest value of all pairs.

    Args:
        probabilities: float32 (N, M, K), M >= 2 models, K classes.

    Returns:
        float32 (N,) in [0, 1 + sqrt 2].
    """
    labels = probabilities.argmax(dim=2)
    worst = torch.zeros(len(probabilities), device=probabilities.device)
    for a, b in combinations(range(probabilities.shape[1]), 2):
        distance = torch.linalg.vector_norm(probabilities[:, a] - probabilities[:, b], dim=1)
        worst = torch.maximum(worst, distance + (labels[:, a] != labels[:, b]))
    return worst
