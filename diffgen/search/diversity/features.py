"""Compares images by the features of a network trained on the real images."""

from __future__ import annotations

import torch

from diffgen.features.encoder import DomainEncoder


class FeatureEmbedding:
    """Features of the domain encoder; they have either sign, so that a cosine distance may reach 2."""

    farthest = 2.0

    def __init__(self, encoder: DomainEncoder) -> None:
        self._encoder = encoder

    def points(self, images: torch.Tensor) -> torch.Tensor:
        """float32 (N, 64) for uint8 (N, C, H, W)."""
        return self._encoder.encode(images)
