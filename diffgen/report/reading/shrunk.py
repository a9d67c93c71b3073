"""Reads the pairs of pictures that ``diffgen shrink`` found."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffgen.report.data import Picture, ShrunkPair
from diffgen.runs.folder import RunFolder
from diffgen.runs.triggers import TriggerTable
from diffgen.tasks.classification import labels_of


def read_shrunk(folder: RunFolder, triggers: TriggerTable, classes: int) -> tuple[ShrunkPair, ...]:
    """The pairs that ``shrink`` found, none when it has not been run."""
    if not folder.has_arrays("shrunk"):
        return ()
    arrays = folder.read_arrays("shrunk")

    def pictures(images: np.ndarray[Any, Any], probabilities: np.ndarray[Any, Any]) -> list[Picture]:
        return [
            Picture(
                image=image,
                labels=tuple(labels_of(answers).tolist()),
                probabilities=answers,
                identifier=int(number),
            )
            for image, answers, number in zip(images, probabilities, arrays["numbers"], strict=True)
        ]

    numbers = arrays["numbers"]
    if len(numbers) == 0:
        return ()
    return tuple(
        ShrunkPair(*each)
        for each in zip(
            pictures(arrays["agreeing"], arrays["agreeing_probabilities"]),
            pictures(arrays["triggers"], arrays["trigger_probabilities"]),
            pictures(triggers.images_of(numbers), triggers.answers(numbers, classes)),
            arrays["difference"].tolist(),
            arrays["before"].tolist(),
            strict=True,
        )
    )
