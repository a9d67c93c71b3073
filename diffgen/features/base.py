"""The protocol that every feature extractor keeps."""

from __future__ import annotations

from typing import Protocol

import torch


class FeatureExtractor(Protocol):
    """Says in numbers what images look like to a network.

    Attributes:
        name: one word, as in options and reports.
    """

    name: str

    def encode(self, images: torch.Tensor, *, batch_size: int = 64) -> torch.Tensor:
        """Features of images, which depend on no other image of the batch.

        Args:
            images: uint8 (N, C, H, W), C is 1 or 3.
            batch_size: images handed to the network at once.

        Returns:
            float32 (N, d) on the extractor's device.
        """
        ...
