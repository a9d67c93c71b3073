"""Which pictures a store knows. Why by labels and nearness: docs/decisions/012-known-behaviours.md."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from diffgen.types import Float32Array, Int64Array


def distance_to_known(
    features: Float32Array, said: Int64Array, known_features: Float32Array, known_said: Int64Array
) -> Float32Array:
    """How far each picture is from the nearest known one on which the models say the same two labels.

    Args:
        features: float32 (N, D).
        said: int64 (N, 2), what base and candidate say.
        known_features, known_said: of the M known pictures.

    Returns:
        float32 (N,); infinite where no known picture has the same labels.
    """
    distance = np.full(len(features), np.inf, dtype=np.float32)
    for pair in np.unique(known_said, axis=0):
        rows, known = (np.flatnonzero((labels == pair).all(axis=1)) for labels in (said, known_said))
        if len(rows):
            apart = features[rows][:, None] - known_features[known][None]
            distance[rows] = np.linalg.norm(apart, axis=2).min(axis=1)
    return distance


def spread_out(features: Float32Array, count: int) -> Int64Array:
    """Rows of up to ``count`` pictures that stand for all: the most central one, then always the one furthest away.

    Greedy k-centres (Gonzalez 1985).

    Args:
        features: float32 (N, D), N at least 1.
    """
    centre: NDArray[np.float32] = features.mean(axis=0)
    chosen = [int(np.linalg.norm(features - centre, axis=1).argmin())]
    distance = np.linalg.norm(features - features[chosen[0]], axis=1)
    while len(chosen) < min(count, len(features)):
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.linalg.norm(features - features[chosen[-1]], axis=1))
    return np.asarray(chosen, dtype=np.int64)
