"""Counts who is right on labelled pictures."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from diffgen.config import roles
from diffgen.labels.store import INVALID, UNLABELLED
from diffgen.types import Int64Array


def outcomes(labels: Int64Array, said: Int64Array) -> dict[str, int]:
    """Who is right on how many pictures, by name of the outcome.

    Args:
        labels: int64 (N,), ``UNLABELLED`` and ``INVALID`` among them.
        said: int64 (N, M), what M models say.
    """
    right = said == labels[:, None]
    if right.shape[1] > 2:
        return _of_many(labels, right)
    names = np.select(
        [labels == UNLABELLED, labels == INVALID, right[:, 0], right[:, 1]],
        ["", "invalid", "only A right", "only B right"],
        "both wrong",
    )
    counted = Counter(names.tolist())
    return {name: counted[name] for name in ("only A right", "only B right", "both wrong", "invalid")}


def _of_many(labels: Int64Array, right: NDArray[np.bool_]) -> dict[str, int]:
    shows = labels >= 0
    found = {f"{role} right": int(right[shows, index].sum()) for index, role in enumerate(roles(right.shape[1]))}
    return {**found, "all wrong": int((~right[shows].any(axis=1)).sum()), "invalid": int((labels == INVALID).sum())}
