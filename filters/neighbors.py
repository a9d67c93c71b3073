"""Distance to the nearest real images in the space of domain features as a filter."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F

from diffgen.features.encoder import DomainEncoder
from diffgen.filters.base import in_batches


class NeighborsFilter:
    """Passes what lies close to some real images, as the domain encoder sees them.

    The score is the mean cosine similarity with the k most similar real images; they are found exactly, by a matrix
    product.

    Args:
        encoder: gives the trained encoder for the real images that it is to be trained on.
        threshold: lowest score that passes, in [-1, 1], or NaN to have it calibrated.
        neighbors: k.
        batch_size: images compared with all real ones at once.
    """

    name = "neighbors"

    def __init__(
        self,
        encoder: Callable[[torch.Tensor], DomainEncoder],
        *,
        threshold: float = math.nan,
        neighbors: int = 5,
        batch_size: int = 256,
    ) -> None:
        self._make = encoder
        self._encoder: DomainEncoder | None = None
        self._directions = torch.empty(0)
        self._neighbors = neighbors
        self._batch_size = batch_size
        self.threshold = threshold
        self.description = "Similarity of features to those of the nearest real images."

    def fit(self, real: torch.Tensor) -> None:
        """Take in the features of real images, uint8 (N, C, H, W)."""
        self._encoder = self._make(real)
        self._directions = F.normalize(self._encoder.encode(real), dim=1)
        self.description = (
            f"Mean cosine similarity of features to the {min(self._neighbors, len(real))} nearest of {len(real)} real "
            "images (all but the held-out ones)."
        )

    def score(self, images: torch.Tensor, *, enough: float = math.inf) -> torch.Tensor:
        """float32 (N,) in [-1, 1], on the CPU, for uint8 (N, C, H, W)."""
        if self._encoder is None:
            raise RuntimeError("fit() the filter before it is asked")
        k = min(self._neighbors, len(self._directions))
        scores = [torch.empty(0)]
        for batch in in_batches(images, self._batch_size):
            alike = F.normalize(self._encoder.encode(batch), dim=1) @ self._directions.T
            scores.append(alike.topk(k, dim=1).values.mean(dim=1).cpu())
        return torch.cat(scores)
