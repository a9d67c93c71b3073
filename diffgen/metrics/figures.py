"""The figures of a run that are counted among its distinct valid triggers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from diffgen.metrics.richness import first_queries, richness
from diffgen.tasks.classification import LabelPairs, behaviours
from diffgen.types import BoolArray, Int64Array


def effective_number(kinds: Int64Array) -> float:
    """Exponential of the entropy of the kinds' frequencies.

    Args:
        kinds: int64 (N,) or (N, D); equal entries, or equal rows, are one kind. Label pairs are rows of two, behaviours
            rows of three.

    Returns:
        between 1 and the number of different kinds; 0 for no entries.
    """
    if len(kinds) == 0:
        return 0.0
    counts = np.unique(kinds, axis=0, return_counts=True)[1]
    shares = counts / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def figures(
    labels: Int64Array,
    cells: Int64Array,
    query: Int64Array,
    *,
    valid: BoolArray,
    distinct: BoolArray,
    classes: int,
    queries: int,
    history: Mapping[str, Sequence[float]],
) -> dict[str, Any]:
    """Fields of :class:`diffgen.runs.results.RunResults`.

    Args:
        labels: int64 (N, M), what the models say of every trigger.
        cells: int64 (N,).
        query: int64 (N,), how many queries had been asked when each was found.
        valid, distinct: bool (N,); see :mod:`diffgen.metrics.counting`.
        classes: K.
        queries: length of the search.
        history: the curves of the search.
    """
    keys = behaviours(labels, cells)
    found = richness(keys[distinct], query[distinct], queries)
    met_at = {
        "valid_triggers": np.sort(query[valid]),
        "behaviours": first_queries(keys[distinct], query[distinct]),
        "label_pairs": first_queries(labels[distinct], query[distinct]),
    }
    asked = history["queries"]
    return {
        "distinct_valid_triggers": int(distinct.sum()),
        "behaviours": found.met,
        "behaviours_at_least": found.at_least,
        "discovery": found.discovery,
        "label_pairs": len(np.unique(labels[distinct], axis=0)),
        "effective_label_pairs": round(effective_number(labels[distinct]), 3),
        "effective_behaviours": round(effective_number(keys[distinct]), 3),
        "pair_counts": LabelPairs.of(labels[distinct], classes),
        "history": {
            **history,
            **{name: np.searchsorted(at, asked, side="right").tolist() for name, at in met_at.items()},
        },
    }
