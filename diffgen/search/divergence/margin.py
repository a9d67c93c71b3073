"""How clear an answer is."""

from __future__ import annotations

import torch


def answer_margin(probabilities: torch.Tensor) -> torch.Tensor:
    """Gap between the two highest probabilities of a model, the smallest over the models.

    A disagreement whose margin is no larger than the numeric noise of the models may be gone when the image is asked
    about in another batch; it is not counted.

    Args:
        probabilities: float32 (N, M, K), K >= 2.

    Returns:
        float32 (N,) in [0, 1].
    """
    best = probabilities.topk(2, dim=2).values
    return (best[:, :, 0] - best[:, :, 1]).amin(dim=1)
