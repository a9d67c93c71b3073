"""Images as directions, for cosine similarities by matrix product."""

from __future__ import annotations

import torch


def unit_vectors(images: torch.Tensor) -> torch.Tensor:
    """float32 (N, C H W) of length 1 for uint8 (N, C, H, W); a blank image stays the zero vector."""
    flat = images.flatten(1).to(torch.float32)
    return flat / torch.linalg.vector_norm(flat, dim=1, keepdim=True).clamp_min_(1e-12)
