"""The figures of a run: results.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diffgen.metrics.figures import figures
from diffgen.runs.triggers import TriggerTable


def counted(
    triggers: TriggerTable, *, classes: int, queries: int, history: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    """The figures that are counted among judged triggers; see :func:`diffgen.metrics.figures.figures`."""
    return figures(
        triggers.labels,
        triggers.known.cells,
        triggers.query,
        valid=triggers.valid,
        distinct=triggers.distinct,
        classes=classes,
        queries=queries,
        history=history,
    )


def brought_up_to_date(results: dict[str, Any], triggers: TriggerTable) -> dict[str, Any]:
    """results.json as this version counts; earlier ones took near-duplicates for behaviours."""
    if "behaviours_at_least" in results:
        return results
    classes, queries = len(results["class_names"]), results["queries"]
    return {**results, **counted(triggers, classes=classes, queries=queries, history=results["history"])}
