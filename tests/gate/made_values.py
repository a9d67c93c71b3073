"""Values as a check measures them."""

from __future__ import annotations

from typing import Any

from diffgen.gate.conditions import UNMEASURED
from diffgen.gate.measurements import AccuracyDrop, Rate
from diffgen.gate.values import GateValues


def changed(values: GateValues, **changes: Any) -> GateValues:
    """Some values otherwise, measurements by their names; with an accuracy drop come the faults that make it."""
    measured = {name: value for name, value in changes.items() if name in UNMEASURED}
    for drop, faults in (("accuracy_drop", "regression_faults"), ("variation_drop", "variation_faults")):
        if drop in measured:
            one: AccuracyDrop | None = measured[drop]
            measured[faults] = None if one is None else Rate(one.only_base, one.of)
    others = {name: value for name, value in changes.items() if name not in UNMEASURED}
    return GateValues(**{**vars(values), **others, "measured": {**UNMEASURED, **values.measured, **measured}})
