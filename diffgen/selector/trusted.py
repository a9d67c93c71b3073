"""Chooses the behaviours in which one model is right more often than the others, and pictures of them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from diffgen.config import roles
from diffgen.runs.triggers import TriggerTable
from diffgen.tasks.classification import role_name
from diffgen.types import Int64Array

# at most, of each model and of each behaviour
_BEHAVIOURS_SHOWN = 8
_PICTURES_SHOWN = 6
_MIN_OF_A_BEHAVIOUR = 3

# how far the trusted model is ahead of the worst one, what is said of it, and numbers of triggers
_Entry: TypeAlias = tuple[int, dict[str, Any], Int64Array]


def trusted_behaviours(finds: TriggerTable, labels: Int64Array) -> tuple[list[dict[str, Any]], Int64Array]:
    """The behaviours in which one model is right most often: JSON values, and the triggers that show them.

    All labelled pictures of a behaviour count, also where no model is right or the selector did not learn from them: it
    would be asked about each.

    Args:
        finds: N triggers.
        labels: int64 (N,), what each shows; negative where that is not known or none of the classes.

    Returns:
        one entry a behaviour, those of A first, and int64 trigger numbers, ``shown`` of them for each entry.
    """
    entries: list[_Entry] = []
    known = np.flatnonzero(labels >= 0)
    right = finds.labels == labels[:, None]
    behaviours, groups, sizes = np.unique(finds.behaviours[known], axis=0, return_inverse=True, return_counts=True)
    by_group = np.split(known[np.argsort(groups.reshape(-1), kind="stable")], np.cumsum(sizes)[:-1])
    for (*said, cell), members in zip(behaviours.tolist(), by_group, strict=True):
        counts = right[members].sum(axis=0)
        winner = int(counts.argmax())
        lead = int(counts[winner] - counts.min())
        if counts[winner] < _MIN_OF_A_BEHAVIOUR or lead == 0:
            continue
        picks = members[right[members, winner]][:_PICTURES_SHOWN]
        about = {
            "trust": role_name(winner),
            "labels": said,
            "cell": cell,
            "right": counts.tolist(),
            "labelled": len(members),
            "shown": len(picks),
        }
        entries.append((lead, about, finds.numbers[picks]))

    chosen = []
    for role in roles(finds.labels.shape[1]):
        of_role = sorted((each for each in entries if each[1]["trust"] == role), key=lambda each: each[0], reverse=True)
        chosen += [each[1:] for each in of_role[:_BEHAVIOURS_SHOWN]]
    shown = np.concatenate([numbers for _, numbers in chosen]) if chosen else np.empty(0, dtype=np.int64)
    return [about for about, _ in chosen], shown
