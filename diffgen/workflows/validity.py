"""After the search: filters, cells, and asking again, one image at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from diffgen.features.cells import Cells
from diffgen.filters import FilterPipeline, Verdicts
from diffgen.models import BlackBox
from diffgen.types import Float32Array, Int64Array, Progress, UInt8Array

UNCONFIRMED, CONFIRMED_SINGLE, CONFIRMED_BATCH = 0, 1, 2
_ODD_BATCH = 61  # images at once where there are too many to ask one by one; no batch size that the search uses


@dataclass(frozen=True)
class Validity:
    """What is known of each of N triggers after the search.

    Attributes:
        verdicts: of the filters.
        confirmed: int8 (N,): ``CONFIRMED_SINGLE``, ``CONFIRMED_BATCH`` or ``UNCONFIRMED``.
        cells: int64 (N,).
    """

    verdicts: Verdicts
    confirmed: np.ndarray[tuple[int], np.dtype[np.int8]]
    cells: Int64Array


def judge_triggers(
    models: Sequence[BlackBox],
    images: UInt8Array,
    probabilities: Float32Array,
    pipeline: FilterPipeline,
    cells: Cells,
    *,
    verify_limit: int,
    progress: Progress,
) -> Validity:
    """Filter the triggers, find their cells, and ask the models again.

    Args:
        images: uint8 (N, C, H, W).
        probabilities: float32 (N, 2, K), the answers given during the search.
        verify_limit: most triggers that are asked again one at a time, accepted ones first; the rest in batches.
    """
    tensor = torch.from_numpy(images)
    verdicts = pipeline.apply(tensor, progress=progress)
    labels = probabilities.argmax(axis=2)
    confirmed = np.full(len(images), UNCONFIRMED, dtype=np.int8)
    order = np.argsort(~verdicts.accepted, kind="stable")
    single, rest = order[:verify_limit], order[verify_limit:]
    with progress.task("Asking again, one image at a time", total=len(single)) as task:
        for row in single:
            if _same_answers(models, tensor[row : row + 1], labels[row : row + 1])[0]:
                confirmed[row] = CONFIRMED_SINGLE
            task.advance()
    with progress.task("Asking again, in batches", total=len(rest)) as task:
        for start in range(0, len(rest), _ODD_BATCH):
            rows = rest[start : start + _ODD_BATCH]
            same = _same_answers(models, tensor[torch.from_numpy(rows)], labels[rows])
            confirmed[rows[same]] = CONFIRMED_BATCH
            task.advance(len(rows))
    return Validity(verdicts, confirmed, cells.assign(tensor))


def _same_answers(
    models: Sequence[BlackBox], images: torch.Tensor, labels: Int64Array
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """bool (N,): whether every model gives the label that it gave before."""
    again = []
    for model in models:
        with model.asking_again("verification"):
            again.append(model.predict(images).argmax(dim=1).cpu().numpy())
    return np.asarray((np.stack(again, axis=1) == labels).all(axis=1))
