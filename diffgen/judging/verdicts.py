"""After the search: filters, cells, and asking the models about the triggers again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from diffgen.events import Progress
from diffgen.features.cells import Cells
from diffgen.filters import FilterPipeline, Verdicts
from diffgen.metrics.counting import CONFIRMED_BATCH, CONFIRMED_SINGLE, UNCONFIRMED, behaviour_keys
from diffgen.models import BlackBox
from diffgen.types import Float32Array, Int64Array, UInt8Array

_ODD_BATCH = 61  # images at once where there are too many to ask one by one; no batch size that the search uses
PICTURES_A_BEHAVIOUR = 5  # that the report shows at most


@dataclass(frozen=True)
class Validity:
    """What is known of each of N triggers after the search.

    Attributes:
        verdicts: of the filters.
        confirmed: int8 (N,): see :mod:`diffgen.metrics.counting`.
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
    """Filter the triggers, find their cells, and ask the models about every trigger again.

    Args:
        images: uint8 (N, C, H, W).
        probabilities: float32 (N, 2, K), the answers given during the search.
        verify_limit: most triggers that are asked about alone: accepted ones first, a picture of every behaviour
            before the second one of any (:func:`in_rounds`). The rest are asked about in batches composed otherwise
            than in the search.
    """
    tensor = torch.from_numpy(images)
    verdicts = pipeline.apply(tensor, progress=progress)
    which = cells.assign(tensor)
    labels = probabilities.argmax(axis=2)
    confirmed = np.full(len(images), UNCONFIRMED, dtype=np.int8)
    accepted = np.flatnonzero(verdicts.accepted)
    rounds = in_rounds(behaviour_keys(labels, which)[accepted], probabilities[accepted])
    order = np.concatenate([accepted[rounds], np.flatnonzero(~verdicts.accepted)])
    single, rest = order[:verify_limit], order[verify_limit:]
    with progress.stage("Asking again, one image at a time", total=len(single)) as task:
        for row in single:
            if _same_answers(models, tensor[row : row + 1], labels[row : row + 1])[0]:
                confirmed[row] = CONFIRMED_SINGLE
            task.advance()
    with progress.stage("Asking again, in batches", total=len(rest)) as task:
        for start in range(0, len(rest), _ODD_BATCH):
            rows = rest[start : start + _ODD_BATCH]
            same = _same_answers(models, tensor[torch.from_numpy(rows)], labels[rows])
            confirmed[rows[same]] = CONFIRMED_BATCH
            task.advance(len(rows))
    return Validity(verdicts, confirmed, which)


def in_rounds(keys: Int64Array, probabilities: Float32Array) -> Int64Array:
    """The order in which triggers are confirmed: the first picture of every behaviour, the second of every one, ...

    Within a behaviour those come first that a report would show: evenly spread from the widest disagreement to the
    narrowest.

    Args:
        keys: int64 (N, D); equal rows are one behaviour.
        probabilities: float32 (N, M, K).

    Returns:
        int64 (N,), a permutation of the rows.
    """
    if len(keys) == 0:
        return np.empty(0, dtype=np.int64)
    gap = np.linalg.norm(probabilities[:, 0] - probabilities[:, -1], axis=1)
    _, inverse = np.unique(keys, axis=0, return_inverse=True)
    turn = np.empty(len(keys), dtype=np.int64)
    widest_first = np.lexsort([-gap, inverse])
    for members in np.split(widest_first, np.flatnonzero(np.diff(inverse[widest_first])) + 1):
        turn[members[spread_first(len(members))]] = np.arange(len(members))
    return np.lexsort([np.arange(len(keys)), turn])


def spread_first(count: int) -> Int64Array:
    """0 to count - 1, evenly spread ones first: as many as a report shows of a behaviour."""
    evenly = np.linspace(0, count - 1, min(PICTURES_A_BEHAVIOUR, count)).astype(np.int64)
    return np.concatenate([evenly, np.setdiff1d(np.arange(count), evenly)])


def _same_answers(
    models: Sequence[BlackBox], images: torch.Tensor, labels: Int64Array
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """bool (N,): whether every model gives the label that it gave before."""
    again = []
    for model in models:
        with model.asking_again("verification"):
            again.append(model.predict(images).argmax(dim=1).cpu().numpy())
    return np.asarray((np.stack(again, axis=1) == labels).all(axis=1))
