"""Reads what the validity filters of a run did, and how diverse the pictures are that they let through."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffgen.report.data import FilterView
from diffgen.report.wording import with_minus
from diffgen.runs.results import RunResults
from diffgen.runs.triggers import TriggerTable
from diffgen.wording import percent


def read_filters(results: RunResults, arrays: dict[str, Any], triggers: TriggerTable) -> tuple[FilterView, ...]:
    """One for each filter; ``arrays`` are those of report.npz."""
    views = []
    for index, each in enumerate(results.filters):
        scores = triggers.known.scores[triggers.confirmed, index]
        views.append(
            FilterView(
                name=each.name,
                description=each.description,
                threshold=each.threshold,
                # without those of triggers that an earlier filter had rejected
                trigger_scores=scores[~np.isnan(scores)],
                real_scores=arrays["held_out_scores"][:, index],
                rejected=each.rejected,
            )
        )
    return tuple(views)


def calibration_sentence(results: RunResults) -> str:
    """How the thresholds came out together, or nothing."""
    found = results.calibration
    if found is None or found.reached is None:
        return ""
    return (
        f"All filters together reject {percent(found.reached)} of {found.held_out:,} real images that nothing was "
        f"trained on; {found.false_alarm:.1%} were allowed."
    )


def diversity_sentence(results: RunResults) -> str:
    """How diverse the valid triggers are, beside real images, or nothing."""
    found = results.geometric_diversity
    if not found:
        return ""
    triggers, real = (with_minus(f"{found[of]['mean']:.1f}") for of in ("found", "real"))
    return (
        f"Geometric diversity {triggers}, of real images {real}: the log-determinant that {found['size']} of them span "
        f"in the features of the domain encoder, near-duplicates left out, mean of {found['draws']} draws; higher is "
        "more diverse."
    )
