"""Judges the triggers after the search, and chooses those that the report shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import torch

from diffgen.events import Progress
from diffgen.features.cells import Cells
from diffgen.features.jury import Reading, Recogniser
from diffgen.filters import FilterPipeline, FilterVerdicts, RecognitionFilter
from diffgen.metrics.counting import (
    CONFIRMED_BATCH,
    CONFIRMED_SINGLE,
    NOT_VALID,
    UNCONFIRMED,
    is_valid,
)
from diffgen.metrics.near_duplicates import DistinctPictures
from diffgen.models import BlackBox
from diffgen.origins import NO_SEED
from diffgen.runs.images import ImageColumn
from diffgen.runs.triggers import UNKNOWN_LABEL, UNNAMED, TriggerTable, Verdicts
from diffgen.tasks.classification import widest_gap
from diffgen.types import BoolArray, Float32Array, Int64Array

PICTURES_A_BEHAVIOUR = 5  # at most
_BEHAVIOURS_SHOWN = 60  # of each verdict
_IN_FULL = 24  # of each verdict, with more pictures than one, where there is a jury
_ODD_BATCH = 61  # images at once where there are too many to ask one by one; no batch size that the search uses


def judge_triggers(
    models: Sequence[BlackBox],
    triggers: TriggerTable,
    pipeline: FilterPipeline,
    cells: Cells,
    *,
    near_duplicate: float,
    verify_limit: int,
    real_labels: Int64Array | None = None,
    real_differing: Int64Array | None = None,
    recogniser: Recogniser | None = None,
    taught_labels: Int64Array | None = None,
    read_origins: Callable[[TriggerTable, Int64Array], Reading | None] | None = None,
    progress: Progress,
) -> TriggerTable:
    """Filter the triggers, find their cells and near-duplicates, and ask the models about every trigger again.

    Args:
        models: those that gave the answers in the search.
        triggers: without verdicts.
        pipeline: the validity filters, calibrated.
        near_duplicate: correlation of thumbnails from which on two pictures count as one.
        verify_limit: most triggers that are asked about alone: those that the report shows first, then the other
            accepted ones; of these the distinct ones that are recognised, then the other distinct ones, then those that
            repeat others, a picture of every behaviour before the second one of any (:func:`in_rounds`). The rest are
            asked about in batches composed otherwise than in the search.
        real_labels: int64, of all real images, or None.
        real_differing: int64, rows of the real images on which the models disagree, or None: not known.
        recogniser: the jury, or None.
        taught_labels: int64, those of all real images from which the jury learned; without a jury they say what
            pictures show. None: nothing does.
        read_origins: without a jury, what is said of triggers of some rows, see
            :func:`diffgen.comparison.known_maps.named_by_origin`; it is asked about those that are accepted and repeat
            no other.

    Returns:
        the triggers with verdicts.
    """
    column, labels = triggers.image_column, triggers.labels
    reading = _read(recogniser, column, seed_labels(triggers.seeds, taught_labels), progress)
    parts, which = list[FilterVerdicts](), np.empty(len(triggers), dtype=np.int64)
    with progress.stage("Filtering", total=len(triggers)) as task:
        for some, images in _batches(column):
            known = None if reading is None else {RecognitionFilter.name: reading.certainty[some]}
            parts.append(pipeline.apply(images, known))
            which[some] = cells.assign(images)
            task.reach(some.stop)
    filtered = FilterVerdicts.joined(parts)
    repeats = _repeats(triggers, filtered.accepted, near_duplicate)
    if recogniser is None and read_origins is not None:
        with progress.stage("Asking what the real images show"):
            reading = read_origins(triggers, np.flatnonzero(filtered.accepted & (repeats == np.arange(len(triggers)))))
    confirmed = np.full(len(triggers), UNCONFIRMED, dtype=np.int8)
    verdicts = Verdicts(
        scores=filtered.scores,
        rejected_by=filtered.rejected_by,
        confirmed=np.full(len(triggers), CONFIRMED_BATCH, dtype=np.int8),
        cells=which,
        near_duplicate_of=repeats,
        seed_labels=seed_labels(triggers.seeds, real_labels),
        # whether they were made from a real image on which the models disagree already
        seed_differs=None
        if triggers.seeds is None or real_differing is None
        else np.isin(triggers.seeds, real_differing),
        **({} if reading is None else vars(reading)),
    )
    # as if all disagreed again
    order = _order(triggers.judged(verdicts), clearest=models[0].detects)
    single, rest = order[:verify_limit], order[verify_limit:]
    with progress.stage("Asking again, one image at a time", total=len(single)) as task:
        pictures = column.chosen(single).batches()
        for row, picture in zip(single.tolist(), chain.from_iterable(pictures), strict=True):
            if _same_answers(models, torch.from_numpy(picture[None]), labels[row : row + 1])[0]:
                confirmed[row] = CONFIRMED_SINGLE
            task.advance()
    with progress.stage("Asking again, in batches", total=len(rest)) as task:
        for start in range(0, len(rest), _ODD_BATCH):
            rows = rest[start : start + _ODD_BATCH]
            same = _same_answers(models, torch.from_numpy(column.at(rows)), labels[rows])
            confirmed[rows[same]] = CONFIRMED_BATCH
            task.advance(len(rows))
    verdicts, valid = replace(verdicts, confirmed=confirmed), is_valid(confirmed, filtered.rejected_by)
    if not np.array_equal(valid, filtered.accepted):
        verdicts = replace(verdicts, near_duplicate_of=_repeats(triggers, valid, near_duplicate))
    return triggers.judged(verdicts)


def _read(
    recogniser: Recogniser | None, images: ImageColumn, labels: Int64Array | None, progress: Progress
) -> Reading | None:
    """What the jury says of the pictures, in the light of the labels of the real images that they were made from.

    Without a jury these labels say it alone.
    """
    if recogniser is None:
        nothing = np.zeros(len(images), dtype=np.float32)
        return None if labels is None else Reading(labels, nothing, labels != UNKNOWN_LABEL)
    with progress.stage("Asking the jury", total=len(images)) as task:
        parts = list[Reading]()
        for some, pictures in _batches(images):
            parts.append(recogniser.read(pictures, None if labels is None else labels[some]))
            task.reach(some.stop)
    return Reading(
        np.concatenate([each.named for each in parts]),
        np.concatenate([each.certainty for each in parts]),
        np.concatenate([each.recognised for each in parts]),
    )


def _repeats(triggers: TriggerTable, valid: BoolArray, near_duplicate: float) -> Int64Array:
    """int64 (N,): see :func:`diffgen.metrics.counting.is_distinct`, where the triggers ``valid`` are."""
    rows, found = np.flatnonzero(valid), np.full(len(triggers), NOT_VALID, dtype=np.int64)
    pictures = DistinctPictures(near_duplicate)
    for some, images in _batches(triggers.image_column.chosen(rows)):
        found[rows[some]] = pictures.add(images.numpy(), triggers.labels[rows[some]], rows[some])
    return found


def _batches(images: ImageColumn) -> Iterator[tuple[slice, torch.Tensor]]:
    """All images in their order, uint8 (n, C, H, W), and where they stand; of no image one batch of none."""
    first = 0
    for batch in images.batches() if len(images) else [images.at(np.empty(0, dtype=np.int64))]:
        yield slice(first, first + len(batch)), torch.from_numpy(batch)
        first += len(batch)


def _order(triggers: TriggerTable, *, clearest: bool) -> Int64Array:
    """int64 (N,): the order in which triggers with verdicts are asked about again; see :func:`judge_triggers`."""
    shown = choose_shown(triggers, clearest=clearest)
    counted = triggers.distinct_by_verdict[UNNAMED] | triggers.recognised_distinct
    left = ~np.isin(np.arange(len(triggers)), shown)
    groups = (
        counted & triggers.recognised & left,
        counted & ~triggers.recognised & left,
        triggers.valid & ~counted & left,
    )
    rounds = []
    for rows in map(np.flatnonzero, groups):
        rounds.append(rows[in_rounds(triggers.behaviours[rows], triggers.probabilities[rows])])
    return np.concatenate([shown, *rounds, np.flatnonzero(~triggers.valid)])


def seed_labels(seeds: Int64Array | None, real_labels: Int64Array | None) -> Int64Array | None:
    """The labels of the real images that triggers were made from, so that a run can be read without these."""
    if seeds is None or real_labels is None:
        return None
    return np.where(seeds == NO_SEED, UNKNOWN_LABEL, real_labels[seeds]).astype(np.int64)


def in_rounds(keys: Int64Array, probabilities: Float32Array) -> Int64Array:
    """The order in which triggers are confirmed: the first picture of every behaviour, the second of every one, ...

    Within a round the most frequent behaviours come first. Within a behaviour those come first that a report would
    show: evenly spread from the widest disagreement to the narrowest.

    Args:
        keys: int64 (N, D); equal rows are one behaviour.
        probabilities: float32 (N, M, K).

    Returns:
        int64 (N,), a permutation of the rows.
    """
    if len(keys) == 0:
        return np.empty(0, dtype=np.int64)
    gap = widest_gap(probabilities)
    _, inverse, counts = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    turn = np.empty(len(keys), dtype=np.int64)
    widest_first = np.lexsort((-gap, inverse))
    for members in np.split(widest_first, np.flatnonzero(np.diff(inverse[widest_first])) + 1):
        turn[members[spread_first(len(members))]] = np.arange(len(members))
    return np.lexsort((np.arange(len(keys)), -counts[inverse], turn))


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
        with model.answers.bypass("verification"):
            again.append(model.predict(images).argmax(dim=1).cpu().numpy())
    return np.asarray((np.stack(again, axis=1) == labels).all(axis=1))


def choose_shown(triggers: TriggerTable, *, clearest: bool = False) -> Int64Array:
    """Trigger numbers of the gallery: what the jury recognises, verdict by verdict, then what it does not.

    Args:
        triggers: all of a run, with verdicts.
        clearest: those on which the models are most decided first; a behaviour counts as much as those that are shown
            of it are clear together. Else the most frequent behaviours come first, each from its widest disagreement to
            its narrowest.
    """
    parts = triggers.distinct_by_verdict
    in_full = _IN_FULL if len(parts) > 1 else _BEHAVIOURS_SHOWN
    return np.concatenate([_some_of_each(triggers, np.flatnonzero(rows), in_full, clearest) for rows in parts.values()])


def _some_of_each(triggers: TriggerTable, rows: Int64Array, in_full: int, clearest: bool) -> Int64Array:
    """Of the first behaviours among some rows a few pictures each; see :func:`choose_shown`.

    Of those after the first ``in_full`` there is one picture each.
    Of a behaviour with pictures that the models were asked about again alone, only those are shown.
    """
    if len(rows) == 0:
        return np.empty(0, dtype=np.int64)
    alone, apart = triggers.known.confirmed == CONFIRMED_SINGLE, triggers.divergence
    _, inverse, worth = np.unique(triggers.behaviours[rows], axis=0, return_inverse=True, return_counts=True)
    if clearest:
        apart = triggers.clearness
        worth = np.array(
            [np.sort(apart[rows[inverse == each]])[-PICTURES_A_BEHAVIOUR:].sum() for each in range(len(worth))]
        )
    chosen: list[int] = []
    for place, behaviour in enumerate(np.argsort(-worth, kind="stable")[:_BEHAVIOURS_SHOWN]):
        members = rows[inverse == behaviour]
        members = members[alone[members]] if alone[members].any() else members
        members = members[np.argsort(-apart[members], kind="stable")]
        most = PICTURES_A_BEHAVIOUR if place < in_full else 1
        last = min(most, len(members)) - 1 if clearest else len(members) - 1
        picks = np.linspace(0, last, min(most, len(members))).astype(np.int64)
        chosen.extend(members[picks].tolist())
    return np.asarray(chosen, dtype=np.int64)
