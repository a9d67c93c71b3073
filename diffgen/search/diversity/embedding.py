"""The protocol of an embedding: the space in which images are compared."""

from __future__ import annotations

from typing import Protocol

import torch


class ImageEmbedding(Protocol):
    """Images as vectors.

    Attributes:
        farthest: the largest cosine distance that two images can have.
    """

    farthest: float

    def points(self, images: torch.Tensor) -> torch.Tensor:
        """float32 (N, D) for uint8 (N, C, H, W): what is clustered, and what cosine distances are taken of."""
        ...
