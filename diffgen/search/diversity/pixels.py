"""Compares images by their pixels, as in the paper."""

from __future__ import annotations

import torch

from diffgen.features.shrinking import shrunk


class PixelEmbedding:
    """The grey levels themselves, of large images averaged down to 32 pixels a side.

    They are not negative, so that no two images are further apart than 1.
    """

    farthest = 1.0

    def points(self, images: torch.Tensor) -> torch.Tensor:
        """float32 (N, C h w) in [0, 1] for uint8 (N, C, H, W)."""
        return shrunk(images).flatten(1).to(torch.float32) / 255
