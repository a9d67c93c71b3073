"""The figures of a run that are counted among its distinct valid triggers; also for runs of earlier versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from diffgen.metrics.counting import NOT_VALID, behaviour_keys, is_distinct, is_valid
from diffgen.metrics.effective_number import effective_number
from diffgen.metrics.richness import first_queries, richness
from diffgen.types import Int64Array

Columns = Mapping[str, np.ndarray[Any, Any]]


def figures(
    triggers: Columns, verdicts: Columns, *, classes: int, queries: int, history: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    """Fields of results.json, JSON values.

    Args:
        triggers: the columns of all triggers; without any, there is none.
        verdicts: the arrays of verdicts.npz.
        classes: K.
        queries: length of the search.
        history: the curves of the search.
    """
    valid = is_valid(verdicts["confirmed"], verdicts["rejected_by"])
    distinct = is_distinct(verdicts["near_duplicate_of"])
    labels: Int64Array = triggers["probabilities"].argmax(axis=2) if triggers else np.empty((0, 2), dtype=np.int64)
    query: Int64Array = triggers["query"] if triggers else np.empty(0, dtype=np.int64)
    keys = behaviour_keys(labels, verdicts["cells"])
    found = richness(keys[distinct], query[distinct], queries)
    counts = pair_counts(labels[distinct], classes)
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
        "discovery": found.discovery.as_dict(),
        "label_pairs": int((counts > 0).sum()),
        "effective_label_pairs": round(effective_number(labels[distinct]), 3),
        "effective_behaviours": round(effective_number(keys[distinct]), 3),
        "pair_counts": counts.tolist(),
        "history": {
            **history,
            **{name: np.searchsorted(at, asked, side="right").tolist() for name, at in met_at.items()},
        },
    }


def brought_up_to_date(
    results: dict[str, Any], triggers: Columns, verdicts: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """results.json and verdicts.npz of a run as this version counts; earlier ones took near-duplicates for behaviours.

    Where near-duplicates were not looked for, every valid trigger counts.
    """
    if "near_duplicate_of" not in verdicts:
        valid = is_valid(verdicts["confirmed"], verdicts["rejected_by"])
        verdicts = {**verdicts, "near_duplicate_of": np.where(valid, np.arange(len(valid)), NOT_VALID)}
    if "behaviours_at_least" not in results:
        classes, queries = len(results["class_names"]), results["queries"]
        counted = figures(triggers, verdicts, classes=classes, queries=queries, history=results["history"])
        results = {**results, **counted}
    return results, verdicts


def pair_counts(labels: Int64Array, classes: int) -> Int64Array:
    """int64 (K, K): how often A says the row's class and B the column's, for int64 (N, 2) labels."""
    counts = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(counts, (labels[:, 0], labels[:, 1]), 1)
    return counts
