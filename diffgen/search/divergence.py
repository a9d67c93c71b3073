"""How far apart the models' answers to one image are: the first objective."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import torch

from diffgen.tasks.classification import answer_margin, differ

Divergence = Callable[[torch.Tensor], torch.Tensor]  # float32 (N, M, K) to float32 (N,), larger is further apart


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


def jensen_shannon(probabilities: torch.Tensor) -> torch.Tensor:
    """Jensen-Shannon divergence to base 2 (Lin 1991): mean relative entropy to the mean of both answers.

    It is 1 when nothing that one model thinks possible is possible for the other. Nothing is added when labels differ.
    With more than two models the mean of all pairs. The divergence of close answers is far smaller than the
    entropies that it is the difference of, so that these are computed in float64.

    Args:
        probabilities: float32 (N, M, K), M >= 2 models, K classes.

    Returns:
        float32 (N,) in [0, 1].
    """
    # Apple's GPUs have no float64
    place = torch.device("cpu") if probabilities.device.type == "mps" else probabilities.device
    wide = probabilities.to(place, torch.float64)
    pairs = list(combinations(range(wide.shape[1]), 2))
    total = torch.zeros(len(wide), device=place, dtype=torch.float64)
    for a, b in pairs:
        p, q = wide[:, a], wide[:, b]
        # float32 answers add up to 1 but for their last digits, which would outweigh the divergence of close ones
        p, q = p / p.sum(dim=1, keepdim=True), q / q.sum(dim=1, keepdim=True)
        # H(mean) - (H(p) + H(q)) / 2; xlogy is 0 where a probability is 0
        value = _negative_entropy(p) / 2 + _negative_entropy(q) / 2 - _negative_entropy((p + q) / 2)
        total = total + value.clamp(0, 1)
    return (total / len(pairs)).to(probabilities.device, torch.float32)


def _negative_entropy(probabilities: torch.Tensor) -> torch.Tensor:
    return torch.special.xlogy(probabilities, probabilities).sum(dim=1) / math.log(2)


def top2_margin(probabilities: torch.Tensor) -> torch.Tensor:
    """1 minus the smallest gap between a model's two highest probabilities.

    It draws the search to where one model is least sure, and where a small difference between the models is enough, as
    DiffChaser's k-uncertainty with k = 2 does. It does not look at whether they differ.

    Args:
        probabilities: float32 (N, M, K), M >= 2 models, K >= 2 classes.

    Returns:
        float32 (N,) in [0, 1].
    """
    return 1 - answer_margin(probabilities)


DIVERGENCES: dict[str, Divergence] = {
    "euclidean+1": euclidean_plus_one,
    "jensen-shannon": jensen_shannon,
    "top2-margin": top2_margin,
}
