"""The divergence of the paper, for two models and more."""

from __future__ import annotations

from itertools import combinations

import torch

from diffgen.tasks.classification import differ


def euclidean_plus_one(probabilities: torch.Tensor) -> torch.Tensor:
    """Euclidean distance of the probability vectors, + 1 when the labels differ (paper, Eq. 1).

    With more than two models the mean distance of all pairs, + 1 when not all labels are alike: a picture on which
    they fall into halves goes before one on which a single model stands alone.

    Args:
        probabilities: float32 (N, M, K), M >= 2 models, K classes.

    Returns:
        float32 (N,) in [0, 1 + sqrt 2].
    """
    labels = probabilities.argmax(dim=2)
    pairs = list(combinations(range(probabilities.shape[1]), 2))
    total = torch.zeros(len(probabilities), device=probabilities.device)
    for a, b in pairs:
        total = total + torch.linalg.vector_norm(probabilities[:, a] - probabilities[:, b], dim=1)
    return total / len(pairs) + differ(labels)
