"""Chooses the behaviours in which one model is right more often than the others, and pictures of them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from diffgen.config import roles
from diffgen.runs.triggers import TriggerTable
from diffgen.selector.examples import Examples
from diffgen.tasks.classification import role_name
from diffgen.types import Int64Array

# at most, of each model and of each behaviour
_BEHAVIOURS_SHOWN = 8
_PICTURES_SHOWN = 6
_MIN_OF_A_BEHAVIOUR = 3

# how far the trusted model is ahead of the worst one, what is said of it, and numbers of triggers
_Entry: TypeAlias = tuple[int, dict[str, Any], Int64Array]


def trusted_behaviours(finds: TriggerTable, examples: Examples) -> tuple[list[dict[str, Any]], Int64Array]:
    """The behaviours in which one model is right most often: JSON values, and the triggers that show them.

    Returns:
        one entry a behaviour, those of A first (of two models with names for each, of more with lists), and int64
            trigger numbers, ``shown`` of them for each entry.
    """
    entries: list[_Entry] = []
    for group in range(int(examples.groups.max()) + 1):
        members = np.flatnonzero(examples.groups == group)
        counts = examples.right[members].sum(axis=0)
        winner = int(counts.argmax())
        lead = int(counts[winner] - counts.min())
        if counts[winner] < _MIN_OF_A_BEHAVIOUR or lead == 0:
            continue
        picks = members[examples.right[members, winner]][:_PICTURES_SHOWN]
        *labels, cell = finds.behaviours[examples.rows[members[0]]].tolist()
        about = {"trust": role_name(winner), **_about(labels, cell, counts.tolist()), "shown": len(picks)}
        entries.append((lead, about, finds.numbers[examples.rows[picks]]))

    chosen = []
    for role in roles(examples.right.shape[1]):
        of_role = sorted((each for each in entries if each[1]["trust"] == role), key=lambda each: each[0], reverse=True)
        chosen += [each[1:] for each in of_role[:_BEHAVIOURS_SHOWN]]
    shown = np.concatenate([numbers for _, numbers in chosen]) if chosen else np.empty(0, dtype=np.int64)
    return [about for about, _ in chosen], shown


def _about(labels: list[int], cell: int, right: list[int]) -> dict[str, Any]:
    """What the models say in a behaviour, and on how many of its pictures each is right."""
    if len(labels) > 2:
        return {"labels": labels, "cell": cell, "right": right}
    (label_a, label_b), (a, b) = labels, right
    return {"label_a": label_a, "label_b": label_b, "cell": cell, "a_right": a, "b_right": b}
