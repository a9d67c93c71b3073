"""Chooses the behaviours in which one model is right more often than the other, and pictures of them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from diffgen.runs.triggers import TriggerTable
from diffgen.selector.examples import Examples
from diffgen.types import Int64Array

# at most, of each model and of each behaviour
_BEHAVIOURS_SHOWN = 8
_PICTURES_SHOWN = 6
_MIN_OF_A_BEHAVIOUR = 3

_Entry: TypeAlias = tuple[dict[str, Any], Int64Array]


def trusted_behaviours(finds: TriggerTable, examples: Examples) -> tuple[list[dict[str, Any]], Int64Array]:
    """The behaviours in which one model is right most often: JSON values, and the triggers that show them.

    Returns:
        one entry a behaviour, those of A first, and int64 trigger numbers, ``shown`` of them for each entry.
    """
    entries: list[_Entry] = []
    for group in range(int(examples.groups.max()) + 1):
        members = np.flatnonzero(examples.groups == group)
        counts = examples.right[members].sum(axis=0)
        a, b = int(counts[0]), int(counts[1])
        if max(a, b) < _MIN_OF_A_BEHAVIOUR or a == b:
            continue
        winner = 0 if a > b else 1
        picks = members[examples.right[members, winner]][:_PICTURES_SHOWN]
        label_a, label_b, cell = finds.behaviours[examples.rows[members[0]]].tolist()
        about = {
            "trust": "AB"[winner],
            "label_a": label_a,
            "label_b": label_b,
            "cell": cell,
            "a_right": a,
            "b_right": b,
        }
        entries.append(({**about, "shown": len(picks)}, finds.numbers[examples.rows[picks]]))

    def strength(entry: _Entry) -> int:
        return abs(entry[0]["a_right"] - entry[0]["b_right"])

    chosen = []
    for role in "AB":
        of_role = sorted((each for each in entries if each[0]["trust"] == role), key=strength, reverse=True)
        chosen += of_role[:_BEHAVIOURS_SHOWN]
    shown = np.concatenate([numbers for _, numbers in chosen]) if chosen else np.empty(0, dtype=np.int64)
    return [about for about, _ in chosen], shown
