"""Chooses the triggers that the report of a run shows; about these the models are asked again first."""

from __future__ import annotations

import numpy as np

from diffgen.metrics.counting import CONFIRMED_SINGLE
from diffgen.runs.triggers import TriggerTable
from diffgen.types import Int64Array

PICTURES_A_BEHAVIOUR = 5  # at most
_BEHAVIOURS_SHOWN = 60  # of each verdict
_IN_FULL = 24  # of each verdict, with more pictures than one, where there is a jury


def choose_shown(triggers: TriggerTable) -> Int64Array:
    """Trigger numbers of the gallery: what the jury recognises, verdict by verdict, then what it does not.

    Args:
        triggers: all of a run, with verdicts.
    """
    parts = triggers.distinct_by_verdict
    in_full = _IN_FULL if len(parts) > 1 else _BEHAVIOURS_SHOWN
    return np.concatenate([_some_of_each(triggers, np.flatnonzero(rows), in_full) for rows in parts.values()])


def _some_of_each(triggers: TriggerTable, rows: Int64Array, in_full: int) -> Int64Array:
    """Of the most frequent behaviours among some rows a few pictures each, the widest apart first.

    Of those after the first ``in_full`` there is one picture each.
    Of a behaviour with pictures that the models were asked about again alone, only those are shown.
    """
    if len(rows) == 0:
        return np.empty(0, dtype=np.int64)
    alone, divergence = triggers.known.confirmed == CONFIRMED_SINGLE, triggers.divergence
    _, inverse, counts = np.unique(triggers.behaviours[rows], axis=0, return_inverse=True, return_counts=True)
    chosen: list[int] = []
    for place, behaviour in enumerate(np.argsort(-counts, kind="stable")[:_BEHAVIOURS_SHOWN]):
        members = rows[inverse == behaviour]
        members = members[alone[members]] if alone[members].any() else members
        members = members[np.argsort(-divergence[members], kind="stable")]
        most = PICTURES_A_BEHAVIOUR if place < in_full else 1
        picks = np.linspace(0, len(members) - 1, min(most, len(members))).astype(np.int64)
        chosen.extend(members[picks].tolist())
    return np.asarray(chosen, dtype=np.int64)
