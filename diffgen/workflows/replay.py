"""Entry point of ``diffgen replay``: ask the models again about what a run found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diffgen.comparison.black_boxes import match_classes
from diffgen.comparison.opened_run import OpenedRun
from diffgen.config import ModelSpec
from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.models.base import PREPARED
from diffgen.models.panel import seated
from diffgen.numerics import own_numerics
from diffgen.runs.folder import RunFolder
from diffgen.runs.images import ImageColumn
from diffgen.runs.pictures import read_picture_name, read_png
from diffgen.runs.results import read_finished
from diffgen.runs.triggers import TriggerTable
from diffgen.sampling import random_rows
from diffgen.tasks.classification import by_verdict, differ, faults
from diffgen.types import Int64Array, several

_BATCH = 1024


@dataclass(frozen=True)
class ReplayResult:
    """What a replay showed.

    Attributes:
        run: the run folder.
        replayed: triggers asked about again.
        reproduced: those on which the models still disagree.
        same_labels: those on which both models still say exactly what they said.
        lost: numbers of the triggers on which the models agree now.
        lost_labels: what each model said of each of these before, by name.
        said_again: where triggers were named, what each model says now of each of them, by name and in that order.
        faults: who is wrong on the valid pictures that the jury recognised, without near-duplicates: verdict, as
            :func:`diffgen.tasks.classification.by_verdict` has them -> how many then and how many now; None: no jury.
    """

    run: str
    replayed: int
    reproduced: int
    same_labels: int
    lost: tuple[int, ...]
    lost_labels: tuple[tuple[str, ...], ...] = ()
    faults: Mapping[str, tuple[int, int]] | None = None
    said_again: tuple[tuple[str, ...], ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        """``run``, ``replayed``, ``reproduced``, ``faults`` and, where it is known, ``said_again`` as JSON values."""
        values = asdict(self)
        faults = None if self.faults is None else {name: list(counts) for name, counts in self.faults.items()}
        named = {} if self.said_again is None else {"said_again": [*map(list, self.said_again)]}
        return {**{name: values[name] for name in ("run", "replayed", "reproduced")}, "faults": faults, **named}


@own_numerics()
def replay(
    run: str | Path,
    *models: Any,
    images_only: bool = False,
    triggers: int | Sequence[int] = (),
    device: str | None = None,
    options: Sequence[ModelSpec] = (),
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> ReplayResult:
    """Ask the models again about the reported triggers of a run.

    Args:
        run: the run folder.
        models: other models to ask, as many as the run has, or none: those of the run.
        images_only: take the pictures from the PNG files in ``images/`` instead of the stored arrays.
        triggers: numbers of those to ask about, or one, or none: all of them.
        device: where to ask, or None for the run's own device.
        options: how other models are opened and fed, and what may run code again, for each model in turn; or none.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: no finished run there, its models are gone or have changed, or it reported no such trigger.
    """
    progress, wanted = Progress(events, stop), several(triggers)
    folder = RunFolder.open(run)
    opened = OpenedRun(folder, device)
    boxes = opened.models(models, options=options)
    with folder.reading():
        names = read_finished(folder).class_names
        table = folder.read_judged()
        numbers, images, labels = _from_pngs(folder) if images_only else _from_parts(table)
        if len(labels) and int(labels.max()) >= len(names):
            raise ValueError("the triggers have other classes than those that are named")
    if wanted:
        rows = rows_of(wanted, numbers, folder.path)
        numbers, images, labels = numbers[rows], images.chosen(rows), labels[rows]
    again = np.empty_like(labels)
    if len(images):
        some = images.at(np.sort(random_rows(len(images), PREPARED)))
        for model in boxes:
            model.prepare(some)
        boxes = seated(boxes, opened.config.task)
        for model in boxes:
            if model.num_classes != len(names):
                raise UserError(
                    f"The model {model.name} answers with {model.num_classes:,} classes but those of the run "
                    f"{folder.path} with {len(names):,}; give one with the same classes."
                )
        match_classes(boxes, options)
    with progress.stage("Asking again", total=len(images)) as task:
        for start, batch in enumerate(images.batches(_BATCH)):
            for column, model in enumerate(boxes):
                again[start * _BATCH :][: len(batch), column] = model.predict(batch).argmax(axis=1)
            task.advance(len(batch))
    differs = differ(again)
    return ReplayResult(
        run=str(folder.path),
        replayed=len(images),
        reproduced=int(differs.sum()),
        same_labels=int((again == labels).all(axis=1).sum()),
        lost=tuple(numbers[~differs].tolist()),
        lost_labels=tuple(tuple(names[label] for label in row) for row in labels[~differs].tolist()),
        faults=_faults(folder, table, numbers, labels, again),
        said_again=tuple(tuple(names[label] for label in row) for row in again.tolist()) if wanted else None,
    )


def rows_of(wanted: Sequence[int], numbers: Int64Array, run: Path) -> Int64Array:
    """int64 (n,): where some triggers are among those that a run reported, each once and in the order of ``wanted``.

    Raises:
        UserError: it reported no trigger of such a number.
    """
    places = {number: row for row, number in enumerate(numbers.tolist())}
    for each in wanted:
        if each not in places:
            some = ", ".join(map(str, numbers[:3].tolist()))
            advice = f"give a number from its report, such as {some}" if some else "it reported none at all"
            raise UserError(f"The run {run} reported no trigger {each}; {advice}.")
    return np.array([places[each] for each in dict.fromkeys(wanted)], dtype=np.int64)


def _faults(
    folder: RunFolder, triggers: TriggerTable, numbers: Int64Array, before: Int64Array, now: Int64Array
) -> dict[str, tuple[int, int]] | None:
    """Who is wrong on the pictures that the report leads with, then and now; None where there was no jury."""
    named = triggers.known.named
    if named is None:
        return None
    with folder.reading():
        # as the report counts them
        named, counted = named[numbers], triggers.recognised_distinct[numbers]
    then, again = (by_verdict(faults(labels, named, counted)) for labels in (before, now))
    return {verdict: (int(rows.sum()), int(again[verdict].sum())) for verdict, rows in then.items()}


def _from_parts(triggers: TriggerTable) -> tuple[Int64Array, ImageColumn, Int64Array]:
    """Numbers, images and labels of every trigger that the run reported."""
    reported = np.flatnonzero(triggers.confirmed)
    return triggers.numbers[reported], triggers.image_column.chosen(reported), triggers.labels[reported]


def _from_pngs(folder: RunFolder) -> tuple[Int64Array, ImageColumn, Int64Array]:
    """The same from nothing but the files in ``images/``, whose names carry number and labels."""
    numbers, images, labels = [], [], []
    shape = folder.read_arrays("report")["real_images"].shape[1:]
    for each in sorted(folder.file("images").glob("trigger-*.png")):
        found = read_picture_name(each.name)
        if found is None:
            continue
        file = folder.file("images", each.name)
        try:
            images.append(read_png(file, shape))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UserError(
                f"The picture {file} cannot be read ({reason}); draw it again with 'diffgen report'."
            ) from error
        numbers.append(found[0])
        labels.append(found[1])
    if not images:
        return np.empty(0, np.int64), ImageColumn((), (1, 1, 1)), np.empty((0, 2), np.int64)
    return np.asarray(numbers), ImageColumn.of(np.stack(images)), np.asarray(labels)
