"""Reads how the models answer as an operator gets stronger."""

from __future__ import annotations

import numpy as np

from diffgen.report.data.operators import OperatorCurve, OperatorsView
from diffgen.runs.folder import RunFolder
from diffgen.runs.operator_curves import BY_NOBODY, OperatorCurves


def read_operators(folder: RunFolder) -> OperatorsView | None:
    """The curves, or None: the run has none."""
    if not folder.has_arrays("operators"):
        return None
    stored = OperatorCurves.from_arrays(folder.read_arrays("operators"))
    keys = list(zip(stored.operators.tolist(), stored.names.tolist(), strict=True))
    curves = []
    for key in dict.fromkeys(keys):
        rows = np.array([each == key for each in keys])
        accuracy = () if stored.judged_by == BY_NOBODY else stored.accuracy[rows].T.tolist()
        unit = stored.units[rows][0].decode()
        name = key[1].decode().replace("_", " ")
        curves.append(
            OperatorCurve(
                operator=key[0].decode().replace("_", " "),
                strength=name if unit in ("", name) else f"{unit} {name}" if name in ("right", "down") else unit,
                x=tuple(stored.strengths[rows].tolist()),
                accuracy=tuple(map(tuple, accuracy)),
                disagreement=tuple(stored.disagreement[rows].tolist()),
            )
        )
    return OperatorsView(tuple(curves), stored.images, stored.judged_by, len(keys) * stored.images)
