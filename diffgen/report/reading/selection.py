"""Reads what the selector of a run is worth."""

from __future__ import annotations

import numpy as np

from diffgen.report.data import SelectionView, TrustView
from diffgen.runs.folder import RunFolder
from diffgen.runs.triggers import TriggerTable


def read_selection(folder: RunFolder, triggers: TriggerTable) -> SelectionView | None:
    """What ``select`` wrote, or None when it has not been run."""
    if not folder.has_arrays("selection"):
        return None
    stored = folder.read_arrays("selection")
    about, shown = stored["about"], stored["shown"].tolist()
    behaviours = []
    for entry in about["behaviours"]:
        count = entry["shown"]
        labels = entry["labels"] if "labels" in entry else (entry["label_a"], entry["label_b"])
        right = entry["right"] if "right" in entry else (entry["a_right"], entry["b_right"])
        behaviours.append(
            TrustView(
                trust=entry["trust"],
                labels=tuple(labels),
                cell=entry["cell"],
                right=tuple(right),
                labelled=entry.get("labelled"),
                images=triggers.images_of(np.asarray(shown[:count], dtype=np.int64)),
            )
        )
        shown = shown[count:]
    return SelectionView(
        features=about["features"],
        examples=about["examples"],
        both_wrong=about["both_wrong"],
        sources=about["sources"],
        on_triggers=tuple(about["on_triggers"]),
        real=tuple(about["real"]),
        cost=about["cost"],
        behaviours=tuple(behaviours),
    )
