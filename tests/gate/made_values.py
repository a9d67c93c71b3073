"""Values as a check measures them."""

from __future__ import annotations

from typing import Any

from diffgen.gate.conditions import CRITERIA
from diffgen.gate.measurements import AccuracyDrop, Rate
from diffgen.gate.values import GateValues

_MEASURED = {each.name for each in CRITERIA if each.kind is not None}


def changed(values: GateValues, **changes: Any) -> GateValues:
    """Some values otherwise, measurements by their names; with an accuracy drop come the faults that make it."""
    measured = {name: value for name, value in changes.items() if name in _MEASURED}
    for drop, faults in (("accuracy_drop", "regression_faults"), ("variation_drop", "variation_faults")):
        if drop in measured:
            one: AccuracyDrop | None = measured[drop]
            measured[faults] = None if one is None else Rate(one.only_base, one.of)
    others = {name: value for name, value in changes.items() if name not in _MEASURED}
    return GateValues(**{**vars(values), **others, "measured": {**values.measured, **measured}})
