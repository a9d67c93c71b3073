"""What every validity filter is."""

from __future__ import annotations

from typing import Protocol

import torch


class Filter(Protocol):
    """Tells real pictures from others by a score.

    Attributes:
        name: one word, as in reports and files.
        description: one sentence that names the reference and where the threshold comes from; complete after ``fit``.
        threshold: lowest score that passes; known after ``fit``.
    """

    name: str
    description: str
    threshold: float

    def fit(self, reference: torch.Tensor, held_out: torch.Tensor) -> None:
        """Prepare with real images.

        Args:
            reference: uint8 (N, C, H, W), real images to compare with.
            held_out: uint8 (n, C, H, W), real images that nothing was trained on, for thresholds.
        """
        ...

    def score(self, images: torch.Tensor) -> torch.Tensor:
        """float32 (N,) for uint8 (N, C, H, W); higher is more real."""
        ...
