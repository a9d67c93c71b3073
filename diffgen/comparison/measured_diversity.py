"""Measures how diverse the pictures of a run are, next to real images."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.features.base import FeatureExtractor
from diffgen.metrics.equal_subsets import DRAWS, over_equal_subsets
from diffgen.metrics.geometric_diversity import geometric_diversity
from diffgen.sampling import random_rows

SUBSET = 50  # pictures of a draw; published are 1,000, but more than the encoder has features (64) span no volume
_ENCODED = 2_000  # encode at most this many random pictures; the 30 draws of 50 need 1,500


def measure_diversity(encoder: FeatureExtractor, found: torch.Tensor, real: torch.Tensor) -> dict[str, Any] | None:
    """Geometric diversity of found pictures and of real images, each over random subsets of one size.

    Features are brought to length 1: a picture is then told from others by what it shows, not by how much ink it has,
    and the value is at most 0, which mutually orthogonal features have.

    Args:
        found: uint8 (N, C, H, W), without near-duplicates, of which two would decide over a volume alone.
        real: uint8 (n, C, H, W).

    Returns:
        JSON values: name of the features, size and number of the draws, and mean and standard deviation over them for
        ``found`` and ``real``; None for fewer than ``SUBSET`` pictures of either, or where a draw has no volume.
    """
    if min(len(found), len(real)) < SUBSET:
        return None
    values = over_equal_subsets(
        [_directions(encoder, each) for each in (found, real)], geometric_diversity, size=SUBSET
    )
    if not np.isfinite(values).all():
        return None
    figures = {
        name: {"mean": round(float(each.mean()), 3), "deviation": round(float(each.std(ddof=1)), 3)}
        for name, each in zip(("found", "real"), values, strict=True)
    }
    return {"features": encoder.name, "size": SUBSET, "draws": DRAWS, **figures}


def _directions(encoder: FeatureExtractor, images: torch.Tensor) -> NDArray[np.float64]:
    """float64 (N or fewer, d): features of length 1 of images drawn at random."""
    rows = random_rows(len(images), _ENCODED)
    features = encoder.encode(images[torch.from_numpy(rows)]).double()
    return np.asarray(torch.nn.functional.normalize(features, dim=1).cpu().numpy())
