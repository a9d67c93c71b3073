"""Nearness to a boundary between two classes."""

from __future__ import annotations

import torch

from diffgen.tasks.classification import answer_margin


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
