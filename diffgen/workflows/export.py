"""Writes what a run found as plain files: pictures in folders, and one table."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import permutations
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from diffgen.config import roles
from diffgen.events import Listener, Progress, StopToken
from diffgen.metrics.counting import ACCEPTED, NOT_VALID
from diffgen.origins import recipe_text
from diffgen.runs.folder import RunFolder
from diffgen.runs.images import BATCH
from diffgen.runs.outputs import filled, output_folder, write_new
from diffgen.runs.pictures import png_bytes
from diffgen.runs.results import FinishedRun
from diffgen.runs.triggers import TriggerTable, Verdicts
from diffgen.tasks.classification import role_name
from diffgen.types import Result

_STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_LONGEST_NAME = 40
# what some file system does not take, and what shells and web servers stumble over
_UNSAFE = re.compile(r"[^\w.-]+")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def plain_cell(value: Any) -> Any:
    """A value for a table; text that a spreadsheet would run as a formula is shown with an apostrophe before it."""
    if isinstance(value, str) and value.startswith(_STARTS_A_FORMULA):
        return f"'{value}"
    return value


def as_csv(columns: Mapping[str, Sequence[Any]], *, head: bool = True) -> str:
    """A table, column by column, as text; without its ``head`` it goes on with one."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if head:
        writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([plain_cell(value) for value in row])
    return text.getvalue()


def safe_name(text: str) -> str:
    """A name from a file as a part of a file name that every file system takes; never empty, never a path."""
    plain = unicodedata.normalize("NFKC", text)
    plain = _UNSAFE.sub("_", plain).strip("._")[:_LONGEST_NAME].strip("._")
    return f"_{plain}" if not plain or _RESERVED.fullmatch(plain) else plain


_CSV, _PARQUET = "triggers.csv", "triggers.parquet"
_VERDICT = ("jury_label", "jury_name", "jury_certainty", "recognised", "wrong")


@dataclass(frozen=True)
class ExportResult(Result):
    """What was written.

    Attributes:
        run: the run folder.
        folder: where to.
        pictures: how many.
        tables: the tables' file names.
    """

    run: str
    folder: str
    pictures: int
    tables: tuple[str, ...]


def export(
    run: str | Path,
    output: str | Path | None = None,
    *,
    everything: bool = False,
    force: bool = False,
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> ExportResult:
    """Write every valid trigger of a run as a PNG in a folder of its label pair, and a table of them.

    The folder appears whole or not at all. ``triggers.parquet`` is written beside ``triggers.csv`` where pyarrow is
    installed.

    Args:
        run: the run folder.
        output: the folder to make, or None for ``RUN-export`` beside the run.
        everything: also the triggers that a filter rejected.
        force: replace a folder that an earlier export made, with nothing else in it.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: no finished run there, the output folder cannot be used, or the disk is full.
    """
    progress = Progress(events, stop)
    folder = RunFolder.open(run)
    target = Path(output) if output is not None else folder.path.with_name(f"{folder.path.absolute().name}-export")
    place = output_folder(target, kind="export", force=force, hint=", or add --force to replace an export")
    found = FinishedRun.open(folder)
    triggers, filters = found.triggers, found.filters
    triggers = triggers[triggers.confirmed if everything else triggers.valid]
    with (
        filled(place) as unfinished,
        _Tables(unfinished) as tables,
        progress.stage("Writing pictures", total=len(triggers)) as task,
    ):
        for start in range(0, max(1, len(triggers)), BATCH):
            some = triggers[start : start + BATCH]
            with folder.reading():
                rows = [row_of(some, row, found.class_names, filters) for row in range(len(some))]
            for name in {str(row["file"].rpartition("/")[0]) for row in rows}:
                (unfinished / name).mkdir(parents=True, exist_ok=True)
            for row, image in zip(rows, some.images, strict=True):
                write_new(unfinished / row["file"], png_bytes(image))
                task.advance()
            tables.add(columns_of(rows, filters, models=triggers.probabilities.shape[1]))
    if len(tables.names) == 1:
        progress.say("No triggers.parquet, since pyarrow is missing; pip install 'diffgen[parquet]' brings it.")
    return ExportResult(str(folder.path), str(place.path), len(triggers), tables.names)


def _class_folder(label: int, classes: Sequence[str]) -> str:
    """``3`` for a class without a name of its own, ``3-cat`` for one with; two names never share a folder."""
    name = classes[label] if label < len(classes) else str(label)
    return str(label) if name == str(label) else f"{label}-{safe_name(name)}"


def row_of(triggers: TriggerTable, index: int, classes: Sequence[str], filters: list[str]) -> dict[str, Any]:
    """A row of the table."""
    number, verdicts = int(triggers.numbers[index]), triggers.known
    probabilities = triggers.answers([index], len(classes))[0]
    labels = triggers.labels[index].tolist()
    letters = roles(labels)
    rejected_by = int(verdicts.rejected_by[index])
    place = "_".join(f"{role}-{_class_folder(label, classes)}" for role, label in zip(letters, labels, strict=True))
    if rejected_by != ACCEPTED:
        place = f"rejected/{place}"
    row: dict[str, Any] = {"number": number, "file": f"{place}/trigger-{number:06d}.png"}
    for role, label, answer in zip(letters.lower(), labels, probabilities, strict=True):
        row[f"label_{role}"] = label
        row[f"name_{role}"] = classes[label] if label < len(classes) else str(label)
        row[f"probability_{role}"] = float(answer[label])
    for one, other in permutations(range(len(labels)), 2):
        name = f"probability_{letters[one].lower()}_of_label_{letters[other].lower()}"
        row[name] = float(probabilities[one, labels[other]])
    row["divergence"] = float(triggers.divergence[index])
    row["diversity"] = _or_none(triggers.diversity[index])
    for column, name in enumerate(filters):
        row[f"score_{safe_name(name)}"] = _or_none(verdicts.scores[index, column])
    row["rejected_by"] = None if rejected_by == ACCEPTED else filters[rejected_by]
    repeats = int(verdicts.near_duplicate_of[index])
    row["near_duplicate_of"] = repeats if repeats not in (NOT_VALID, number) else None
    row["cell"] = int(verdicts.cells[index])
    row["generation"] = int(triggers.generation[index])
    row["query"] = int(triggers.query[index])
    origin = triggers.origin(index)
    row["seed_row"], row["seed_label"] = origin.seed, origin.seed_label
    differs = verdicts.seed_differs
    row["seed_differs"] = None if differs is None or origin.seed is None else bool(differs[index])
    row["recipe"] = recipe_text(origin.recipe) or None
    return {**row, **_verdict(triggers, index, classes)}


def _verdict(triggers: TriggerTable, index: int, classes: Sequence[str]) -> dict[str, Any]:
    """What the jury says of a picture, and who is wrong ("A", "B", "A B", ...); empty cells where there was no jury."""
    named, sure = triggers.known.named, triggers.known.certainty
    if named is None or sure is None:
        return dict.fromkeys(_VERDICT)
    label, wrong = int(named[index]), np.flatnonzero(triggers.faults[index]).tolist()
    name = classes[label] if 0 <= label < len(classes) else str(label)
    said = " ".join(map(role_name, wrong)) or None
    values = label, name, float(sure[index]), int(triggers.recognised[index]), said
    return dict(zip(_VERDICT, values, strict=True))


def _or_none(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def columns_of(rows: list[dict[str, Any]], filters: list[str], *, models: int) -> dict[str, list[Any]]:
    """The table column by column; one without a row has the same columns."""
    if rows:
        return {name: [row[name] for row in rows] for name in rows[0]}
    one = TriggerTable.of(np.zeros((1, 1, 1, 1), np.uint8), np.zeros((1, models, 1), np.float32))
    verdicts = replace(Verdicts.replayed(np.zeros(1, np.int64)), scores=np.zeros((1, len(filters)), np.float32))
    return {name: [] for name in row_of(one.judged(verdicts), 0, ["0"], filters)}


class _Tables:
    """triggers.csv and, where pyarrow is installed, triggers.parquet, written some rows at a time.

    They are in a folder that is not finished before they are, so that a half-written one is never seen.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = ExitStack()
        self._csv: TextIO | None = None
        self._parquet: Any = None
        try:
            self._arrow: Any = import_module("pyarrow")
            self._writer: Any = import_module("pyarrow.parquet").ParquetWriter
        except ImportError:
            self._arrow = self._writer = None

    @property
    def names(self) -> tuple[str, ...]:
        """The files."""
        return (_CSV,) if self._arrow is None else (_CSV, _PARQUET)

    def __enter__(self) -> _Tables:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def add(self, columns: Mapping[str, list[Any]]) -> None:
        """Write further rows; every call has the same columns. OSError if the disk is full."""
        first = self._csv is None
        if self._csv is None:
            self._csv = self._open.enter_context((self._folder / _CSV).open("x", encoding="utf-8", newline=""))
        self._csv.write(as_csv(columns, head=first))
        if self._arrow is None:
            return
        schema = self._arrow.schema(arrow_schema(self._arrow, columns))
        if self._parquet is None:
            self._parquet = self._open.enter_context(self._writer(self._folder / _PARQUET, schema))
        self._parquet.write_table(self._arrow.table(dict(columns), schema=schema))


def arrow_schema(arrow: Any, columns: Iterable[str]) -> list[tuple[str, Any]]:
    """Name and type of each column, also of one without a value."""
    kinds = {name: arrow.string() for name in ("rejected_by", "file", "recipe", "jury_name", "wrong")}
    kinds |= {"jury_certainty": arrow.float64(), **dict.fromkeys(("valid", "distinct", "seed_differs"), arrow.bool_())}
    for name in columns:
        if name.startswith("name_"):
            kinds[name] = arrow.string()
        elif name.startswith(("score_", "probability_", "diver")):
            kinds[name] = arrow.float64()
    return [(name, kinds.get(name, arrow.int64())) for name in columns]
