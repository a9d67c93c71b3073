"""Jensen-Shannon divergence of the models' answers."""

from __future__ import annotations

from itertools import combinations

import torch


def jensen_shannon(probabilities: torch.Tensor) -> torch.Tensor:
    """Jensen-Shannon divergence to base 2 (Lin 1991): mean relative entropy to the mean of both answers.

    It is 1 when nothing that one model thinks possible is possible for the other. Nothing is added when labels differ.
    With more than two models the largest value of all pairs.

    Args:
        probabilities: float32 (N, M, K), M >= 2 models, K classes.

    Returns:
        float32 (N,) in [0, 1].
    """
    worst = torch.zeros(len(probabilities), device=probabilities.device)
    for a, b in combinations(range(probabilities.shape[1]), 2):
        p, q = probabilities[:, a], probabilities[:, b]
        mean = (p + q) / 2
        # H(mean) - (H(p) + H(q)) / 2; xlogy is 0 where a probability is 0
        value = _negative_entropy(p) / 2 + _negative_entropy(q) / 2 - _negative_entropy(mean)
        worst = torch.maximum(worst, value.clamp(0, 1))
    return worst


def _negative_entropy(probabilities: torch.Tensor) -> torch.Tensor:
    return torch.special.xlogy(probabilities, probabilities).sum(dim=1) / torch.log(probabilities.new_tensor(2.0))
