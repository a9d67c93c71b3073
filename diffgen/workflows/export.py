"""Writes what a run found as plain files: pictures in folders, and one table."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from diffgen.events import Listener, Progress, StopToken
from diffgen.metrics.counting import ACCEPTED, is_counted, is_valid
from diffgen.runs.files import make_folder, write_text, write_whole
from diffgen.runs.folder import RunFolder
from diffgen.runs.outputs import filled, output_folder
from diffgen.types import UInt8Array
from diffgen.workflows.tables import plain_cell

_CSV, _PARQUET = "triggers.csv", "triggers.parquet"
_LONGEST_NAME = 40
# what some file system does not take, and what shells and web servers stumble over
_UNSAFE = re.compile(r"[^\w.-]+")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


@dataclass(frozen=True)
class ExportResult:
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

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {**asdict(self), "tables": list(self.tables)}


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
        UserError: no finished run there, or the output folder cannot be used.
        RunError: the disk is full.
    """
    progress = Progress(events, stop)
    folder = RunFolder.open(run)
    target = Path(output) if output is not None else folder.path.with_name(f"{folder.path.absolute().name}-export")
    place = output_folder(target, kind="export", force=force, hint=", or add --force to replace an export")
    with folder.reading():
        rows, images, filters = _rows(folder, everything=everything)
    with filled(place) as unfinished:
        with progress.stage("Writing pictures", total=len(rows)) as task:
            for row, image in zip(rows, images, strict=True):
                make_folder((unfinished / row["file"]).parent)
                _write_png(unfinished / row["file"], image)
                task.advance()
        columns = _columns(rows, filters)
        write_text(unfinished / _CSV, _as_csv(columns))
        tables = (_CSV, _PARQUET) if _write_parquet(unfinished / _PARQUET, columns) else (_CSV,)
    if len(tables) == 1:
        progress.say("No triggers.parquet, since pyarrow is missing; pip install 'diffgen[parquet]' brings it.")
    return ExportResult(str(folder.path), str(place.path), len(rows), tables)


def _rows(folder: RunFolder, *, everything: bool) -> tuple[list[dict[str, Any]], UInt8Array, list[str]]:
    """A row of the table for each picture, the pictures, and the names of the filters."""
    results, verdicts = folder.results(), folder.read_arrays("verdicts")
    triggers = folder.read_parts()
    confirmed = verdicts["confirmed"]
    numbers = np.flatnonzero(is_counted(confirmed) if everything else is_valid(confirmed, verdicts["rejected_by"]))
    classes = [str(name) for name in results["class_names"]]
    filters = [each["name"] for each in results["filters"]]
    rows = [_row(number, triggers, verdicts, classes, filters) for number in numbers.tolist()]
    images: UInt8Array = triggers["images"][numbers] if rows else np.empty((0, 1, 1, 1), dtype=np.uint8)
    return rows, images, filters


def safe_name(text: str) -> str:
    """A name from a file as a part of a file name that every file system takes; never empty, never a path."""
    plain = unicodedata.normalize("NFKC", text)
    plain = _UNSAFE.sub("_", plain).strip("._")[:_LONGEST_NAME].strip("._")
    return f"_{plain}" if not plain or _RESERVED.fullmatch(plain) else plain


def _class_folder(label: int, classes: Sequence[str]) -> str:
    """``3`` for a class without a name of its own, ``3-cat`` for one with; two names never share a folder."""
    name = classes[label] if label < len(classes) else str(label)
    return str(label) if name == str(label) else f"{label}-{safe_name(name)}"


def _row(
    number: int, triggers: Mapping[str, Any], verdicts: Mapping[str, Any], classes: Sequence[str], filters: list[str]
) -> dict[str, Any]:
    probabilities = triggers["probabilities"][number]
    labels = [int(label) for label in probabilities.argmax(axis=1)]
    rejected_by = int(verdicts["rejected_by"][number])
    place = f"A-{_class_folder(labels[0], classes)}_B-{_class_folder(labels[1], classes)}"
    if rejected_by != ACCEPTED:
        place = f"rejected/{place}"
    row: dict[str, Any] = {"number": number, "file": f"{place}/trigger-{number:06d}.png"}
    for role, label, answer in zip("ab", labels, probabilities, strict=True):
        row[f"label_{role}"] = label
        row[f"name_{role}"] = classes[label] if label < len(classes) else str(label)
        row[f"probability_{role}"] = float(answer[label])
    row["probability_a_of_label_b"] = float(probabilities[0, labels[1]])
    row["probability_b_of_label_a"] = float(probabilities[1, labels[0]])
    row["divergence"] = float(triggers["divergence"][number])
    row["diversity"] = _or_none(triggers["diversity"][number])
    for index, name in enumerate(filters):
        row[f"score_{safe_name(name)}"] = _or_none(verdicts["scores"][number, index])
    row["rejected_by"] = None if rejected_by == ACCEPTED else filters[rejected_by]
    row["cell"] = int(verdicts["cells"][number])
    row["generation"] = int(triggers["generation"][number])
    row["query"] = int(triggers["query"][number])
    if "sources" in triggers:
        row["source"] = int(triggers["sources"][number])
    return row


def _or_none(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def _columns(rows: list[dict[str, Any]], filters: list[str]) -> dict[str, list[Any]]:
    if rows:
        return {name: [row[name] for row in rows] for name in rows[0]}
    kinds = ("label", "name", "probability")
    names = ["number", "file", *(f"{kind}_{role}" for role in "ab" for kind in kinds)]
    names += ["probability_a_of_label_b", "probability_b_of_label_a", "divergence", "diversity"]
    names += [f"score_{safe_name(name)}" for name in filters]
    return {name: [] for name in [*names, "rejected_by", "cell", "generation", "query"]}


def _as_csv(columns: Mapping[str, list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([plain_cell(value) for value in row])
    return text.getvalue()


def _write_parquet(path: Path, columns: Mapping[str, list[Any]]) -> bool:
    """Write the same as Parquet; False where pyarrow is missing."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        return False
    kinds = {"rejected_by": arrow.string(), "file": arrow.string()}
    for name in columns:
        if name.startswith("name_"):
            kinds[name] = arrow.string()
        elif name.startswith(("score_", "probability_", "diver")):
            kinds[name] = arrow.float64()
    fields = [(name, kinds.get(name, arrow.int64())) for name in columns]
    table = arrow.table(dict(columns), schema=arrow.schema(fields))
    write_whole(path, lambda temporary: parquet.write_table(table, temporary))
    return True


def _write_png(path: Path, image: UInt8Array) -> None:
    """Write uint8 (C, H, W) as a PNG that holds exactly these bytes."""
    Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).save(path, format="PNG")
