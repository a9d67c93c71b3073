"""Writes the finds of a run that somebody can name as a set of labelled pictures, divided for training and testing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from diffgen.config import FilterConfig, TrainingSetConfig, roles
from diffgen.data.file_tree import SPLIT_NAMES
from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.labels.store import UNLABELLED
from diffgen.metrics.counting import is_distinct_among
from diffgen.metrics.relatives import divided, groups_of_relatives
from diffgen.origins import NO_SEED
from diffgen.runs.files import json_text
from diffgen.runs.folder import RunFolder
from diffgen.runs.images import BATCH
from diffgen.runs.outputs import filled, output_folder, write_new
from diffgen.runs.pictures import png_bytes
from diffgen.runs.results import FinishedRun, RunResults
from diffgen.runs.triggers import TriggerTable, digest_of
from diffgen.tasks.classification import role_name
from diffgen.types import BoolArray, Int64Array, Result
from diffgen.workflows.export import as_csv, row_of, safe_name
from diffgen.workflows.label import read_store

_TABLE, _ABOUT = "pictures.csv", "about.json"
_PEOPLE, _JURY = "people", "jury"
_TRAIN, _TEST = "train", "test"
_NAMED = 8  # classes
_DIVIDES = {name for names in SPLIT_NAMES.values() for name in names}


@dataclass(frozen=True)
class TrainingSetResult(Result):
    """What was written.

    Attributes:
        run: the run folder.
        folder: where to.
        train, test: pictures in each part.
        by_people, by_jury: pictures labelled by each.
        missing: names of the classes that have no picture in one of the parts.
    """

    run: str
    folder: str
    train: int
    test: int
    by_people: int
    by_jury: int
    missing: tuple[str, ...]


def export_for_training(
    run: str | Path,
    output: str | Path,
    *,
    config: TrainingSetConfig | None = None,
    force: bool = False,
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> TrainingSetResult:
    """Write the valid triggers that people or the jury can name as ``train/CLASS/*.png`` and ``test/CLASS/*.png``.

    Of near-duplicates one is written, of those that people labelled all. What was made from one seed image, and what is
    nearly the same picture, lies on one side. Every class has a folder on both sides, so that classes keep their
    numbers. ``pictures.csv`` says of each picture who labelled it, what it was made from and what each model said.
    The same run and settings give the same bytes.

    Args:
        run: the run folder.
        output: the folder to make. It appears whole or not at all.
        config: how the pictures are divided.
        force: replace a folder that an earlier such export made, with nothing else in it.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: no finished run there, nobody can name its finds, they cannot be divided, the output folder cannot
            be used, or the disk is full.
    """
    config, progress = config or TrainingSetConfig(), Progress(events, stop)
    folder = RunFolder.open(run)
    place = output_folder(
        Path(output), kind="training set", force=force, option="--for-training", hint=", or add --force to replace one"
    )
    folder.check_description()
    with folder.reading():
        found = FinishedRun.open(folder)
        results, finds = found.results, _labelled(found)
        count, seeds = len(finds.triggers), finds.triggers.seeds
        groups = groups_of_relatives(
            finds.triggers.image_column.batches(),
            np.full(count, NO_SEED, dtype=np.int64) if seeds is None else seeds,
            threshold=FilterConfig().near_duplicate if results.near_duplicate is None else results.near_duplicate,
        )
        to_test = divided(groups, finds.labels, share=config.test_share, seed=config.seed)
        if not to_test.any():
            raise UserError(
                f"The {len(to_test):,} labelled finds of the run {folder.path} are too few, or too much alike, to test "
                f"on {config.test_share:.0%} of them; search longer, or give more with --test-share."
            )
        if to_test.all():
            raise UserError(
                f"All {len(to_test):,} labelled finds of the run {folder.path} would be to test on; search longer, or "
                "give less with --test-share."
            )
        made = _TrainingSet(finds, to_test, groups, class_folders(results.class_names))
        about = _about(folder, made, results, config)
    with filled(place) as unfinished:
        for part in (_TRAIN, _TEST):
            for name in made.classes:
                (unfinished / part / name).mkdir(parents=True)
        with (unfinished / _TABLE).open("x", encoding="utf-8", newline="") as table:
            _write(folder, made, unfinished, table, progress)
        write_new(unfinished / _ABOUT, json_text(about).encode())
    missing = tuple(
        name
        for label, name in enumerate(results.class_names)
        if not all((finds.labels[side] == label).any() for side in (to_test, ~to_test))
    )
    if missing:
        some = f"{', '.join(missing[:_NAMED])}{', ...' if len(missing) > _NAMED else ''}"
        progress.say(
            f"{len(missing):,} of {len(made.classes):,} classes have no picture in train or in test ({some}); their "
            "folders are empty, which torchvision's ImageFolder reads with allow_empty=True."
        )
    if seeds is not None and (seeds != NO_SEED).any():
        progress.say(
            f"The pictures were made from images of {folder.manifest['data']['source']}; measure a model that was "
            f"trained with them on others ({_TABLE} names the rows)."
        )
    by_people = int(finds.by_people.sum())
    return TrainingSetResult(
        run=str(folder.path),
        folder=str(place.path),
        train=int((~to_test).sum()),
        test=int(to_test.sum()),
        by_people=by_people,
        by_jury=count - by_people,
        missing=missing,
    )


@dataclass(frozen=True, eq=False)
class _Finds:
    """N finds of a run with a label each: int64 (N,) ``labels``, and bool (N,) whether people gave it."""

    triggers: TriggerTable
    labels: Int64Array
    by_people: BoolArray

    def __getitem__(self, rows: slice) -> _Finds:
        return _Finds(self.triggers[rows], self.labels[rows], self.by_people[rows])


@dataclass(frozen=True, eq=False)
class _TrainingSet:
    """N finds, bool (N,) whether each is to test, int64 (N,) which are relatives, and the folder of each class."""

    finds: _Finds
    to_test: BoolArray
    groups: Int64Array
    classes: Sequence[str]

    def __getitem__(self, rows: slice) -> _TrainingSet:
        return _TrainingSet(self.finds[rows], self.to_test[rows], self.groups[rows], self.classes)


def _labelled(run: FinishedRun) -> _Finds:
    """The valid triggers that people or the jury can name, one of each near-duplicates.

    What people said goes before what the jury says, of a picture and of its near-duplicates; what they called invalid
    is left out.

    Raises:
        UserError: there are none.
        ValueError: the labels are of other classes than the run has.
    """
    folder, triggers = run.folder, replace(run.triggers, class_names=run.class_names)
    triggers = triggers[triggers.valid]
    said, _ = read_store(folder, triggers).of(triggers.hashes, ("human",))
    if not triggers.has_jury and not (said != UNLABELLED).any():
        raise UserError(
            f"Nobody says what the finds of the run {folder.path} show: it has neither a jury nor labels by people; "
            "label them with `diffgen label`, or compare with more labelled images."
        )
    looked, repeats = said != UNLABELLED, triggers.known.near_duplicate_of
    by_jury = is_distinct_among(repeats, triggers.recognised & ~np.isin(repeats, repeats[looked]))
    by_people = said >= 0
    kept = np.flatnonzero(by_people | by_jury)
    if len(kept) == 0:
        raise UserError(
            f"The run {folder.path} has no find that the jury recognises or that people named, so there is nothing to "
            "train with; search longer, or label some with `diffgen label`."
        )
    named = said if triggers.known.named is None else np.where(by_people, said, triggers.known.named)
    found = _Finds(triggers[kept], named[kept].astype(np.int64), by_people[kept])
    if not 0 <= found.labels.min() <= found.labels.max() < len(run.class_names):
        raise ValueError("its labels are of other classes than those that are named")
    return found


def class_folders(names: Sequence[str]) -> list[str]:
    """A folder for each class, whose alphabetical order is that of the classes, as torchvision's ImageFolder has it.

    They are the names themselves where these are fit for that, else these after the class's number.
    """
    plain = [safe_name(name) for name in names]
    folded = {name.casefold() for name in plain}
    if plain == list(names) and plain == sorted(plain) and len(folded) == len(plain) and not folded <= _DIVIDES:
        return plain
    digits = len(str(len(names) - 1))
    numbers = [f"{label:0{digits}}" for label in range(len(names))]
    if list(names) == [str(label) for label in range(len(names))]:
        return numbers
    return [f"{number}-{name}" for number, name in zip(numbers, plain, strict=True)]


def _write(folder: RunFolder, made: _TrainingSet, unfinished: Path, table: TextIO, progress: Progress) -> None:
    """Write pictures and table; no more than a batch of either is in memory."""
    count = len(made.to_test)
    with progress.stage("Writing pictures", total=count) as task:
        for start in range(0, count, BATCH):
            some = made[start : start + BATCH]
            with folder.reading():
                rows = [_row(some, row) for row in range(len(some.to_test))]
            for values, image in zip(rows, some.finds.triggers.images, strict=True):
                write_new(unfinished / values["file"], png_bytes(image))
                task.advance()
            table.write(as_csv({name: [each[name] for each in rows] for name in rows[0]}, head=start == 0))


def _row(made: _TrainingSet, index: int) -> dict[str, Any]:
    """A row of the table."""
    finds, part = made.finds, _TEST if made.to_test[index] else _TRAIN
    triggers, label = finds.triggers, int(finds.labels[index])
    names, said = triggers.class_names, triggers.labels[index].tolist()
    known = row_of(triggers, index, names, [])
    row = {
        "file": f"{part}/{made.classes[label]}/trigger-{known['number']:06d}.png",
        "number": known["number"],
        "label": label,
        "name": names[label],
        "labelled_by": _PEOPLE if finds.by_people[index] else _JURY,
        "jury_label": known["jury_label"],
        "jury_certainty": known["jury_certainty"],
    }
    for role in roles(said).lower():
        row |= {name: known[name] for name in (f"label_{role}", f"name_{role}")}
    wrong = " ".join(role_name(place) for place, each in enumerate(said) if each != label)
    return {
        **row,
        "wrong": wrong or None,
        "group": int(made.groups[index]),
        **{name: known[name] for name in ("seed_row", "seed_label", "recipe")},
    }


def _about(folder: RunFolder, made: _TrainingSet, results: RunResults, config: TrainingSetConfig) -> dict[str, Any]:
    """What the whole set is, as JSON values."""
    finds, data, files = made.finds, folder.manifest["data"], folder.manifest["files"]
    counts = {
        part: np.bincount(finds.labels[made.to_test == (part == _TEST)], minlength=len(made.classes))
        for part in (_TRAIN, _TEST)
    }
    return {
        "data": {"source": os.path.basename(str(data["source"])), "sha256": data["sha256"]},
        "models": {role: {name: files[role].get(name) for name in ("name", "sha256")} for role in files},
        "triggers": digest_of(finds.triggers.hashes),
        "test_share": config.test_share,
        "seed": config.seed,
        "labelled_by": {_PEOPLE: int(finds.by_people.sum()), _JURY: int((~finds.by_people).sum())},
        "jury": None if results.jury is None else str(results.jury),
        "classes": [
            {
                "label": label,
                "name": name,
                "folder": made.classes[label],
                **{part: int(counts[part][label]) for part in counts},
            }
            for label, name in enumerate(results.class_names)
        ],
    }
