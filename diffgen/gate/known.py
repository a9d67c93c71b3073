"""Which pictures a store knows. Why by labels and nearness: docs/decisions/012-known-behaviours.md."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from diffgen.tasks.classification import rows_by_key
from diffgen.types import Float32Array, Int64Array

_AT_ONCE = 2**22  # numbers; of two classes all pictures have one of two label pairs, and a store may hold hundreds


def nearest_known(
    features: Float32Array, said: Int64Array, known_features: Float32Array, known_said: Int64Array
) -> tuple[Float32Array, Int64Array]:
    """The nearest known picture on which the models say the same two labels, for each picture.

    Args:
        features: float32 (N, D).
        said: int64 (N, 2), what base and candidate say.
        known_features, known_said: of the M known pictures.

    Returns:
        float32 (N,), how far away it is, infinite where no known picture has the same labels; and int64 (N,), its row
        among the known ones, -1 where there is none.
    """
    distance = np.full(len(features), np.inf, dtype=np.float32)
    nearest = np.full(len(features), -1, dtype=np.int64)
    met = dict(rows_by_key(said))
    for pair, known in rows_by_key(known_said):
        rows = met.get(pair)
        if rows is not None:
            stored = known_features[known]
            size = max(1, _AT_ONCE // stored.size)
            for some in np.split(rows, range(size, len(rows), size)):
                apart = np.linalg.norm(features[some][:, None] - stored[None], axis=2)
                nearest[some] = known[apart.argmin(axis=1)]
                distance[some] = apart.min(axis=1)
    return distance, nearest


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
