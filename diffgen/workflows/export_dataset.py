"""Sends a run to programs that know no diffgen: its triggers into a Parquet data set, or all of it to a store.

Runs in one folder are partitions of one data set: ``FOLDER/run=NAME/part-00000.parquet``. Read it with

    duckdb:  SELECT run, count(*) FROM read_parquet('FOLDER/*/*.parquet', hive_partitioning = true) GROUP BY run
    polars:  pl.scan_parquet('FOLDER/*/*.parquet', hive_partitioning=True)
    ray:     ray.data.read_parquet('FOLDER')
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.runs.creation import ANSWERS, FOLDERS, OWN, own_files
from diffgen.runs.files import write_whole
from diffgen.runs.folder import RunFolder
from diffgen.runs.outputs import OutputFolder, filled, output_folder
from diffgen.runs.pictures import png_bytes
from diffgen.runs.results import FinishedRun, read_finished
from diffgen.runs.stores import StoreFolder, is_url, send, store_folder
from diffgen.types import Result
from diffgen.workflows.export import arrow_schema, columns_of, row_of, safe_name

_ROWS = 4096  # of a part


@dataclass(frozen=True)
class DatasetResult(Result):
    """What was written.

    Attributes:
        run: the run folder.
        folder: the partition, or its URL.
        rows: confirmed triggers, valid or not.
        parts: files.
    """

    run: str
    folder: str
    rows: int
    parts: int


def export_dataset(
    run: str | Path,
    dataset: str | Path,
    *,
    force: bool = False,
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> DatasetResult:
    """Write every confirmed trigger of a run into a Parquet data set, as a partition of its own.

    Columns: ``image`` (the picture as PNG, as Hugging Face has it), those of ``diffgen export``'s table but for
    ``file``, and ``valid`` and ``distinct``, which say what a run counts.

    Args:
        run: the run folder.
        dataset: folder of the data set, made where it is not there; or the URL of one in an object store, such as
            ``s3://bucket/finds`` (``pip install diffgen[storage]``, and the store's own package).
        force: replace the partition of an earlier export of a run of that name.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: pyarrow is missing, there is no finished run, or the folder cannot be used.
        RunError: the disk is full, or the store fails.
    """
    arrow, parquet = _arrow()
    progress, folder = Progress(events, stop), RunFolder.open(run)
    name = f"run={safe_name(folder.path.absolute().name)}"
    place = _place(dataset, name, force=force)
    found = FinishedRun.open(folder)
    triggers, filters = found.triggers[found.triggers.confirmed], found.filters
    parts = max(1, -(-len(triggers) // _ROWS))
    with _filled(place, progress) as unfinished, progress.stage("Writing the data set", total=len(triggers)) as task:
        for part in range(parts):
            some = triggers[np.arange(part * _ROWS, min(len(triggers), (part + 1) * _ROWS))]
            with folder.reading():
                rows = [row_of(some, row, found.class_names, filters) for row in range(len(some))]
            columns = columns_of(rows, filters, models=triggers.probabilities.shape[1])
            del columns["file"]
            columns |= {"valid": some.valid.tolist(), "distinct": some.distinct.tolist()}
            picture = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
            kinds = [*arrow_schema(arrow, columns), ("image", picture)]
            columns["image"] = [{"bytes": png_bytes(image), "path": None} for image in some.images]
            table = arrow.table(columns, schema=arrow.schema(kinds))
            write_whole(unfinished / f"part-{part:05d}.parquet", partial(parquet.write_table, table))
            task.advance(len(some))
    where = place.url if isinstance(place, StoreFolder) else str(place.path)
    return DatasetResult(str(folder.path), where, len(triggers), parts)


def _place(dataset: str | Path, name: str, *, force: bool) -> OutputFolder | StoreFolder:
    """Where the partition is to be. UserError if it cannot be there."""
    if isinstance(dataset, str) and is_url(dataset):
        return store_folder(f"{dataset.rstrip('/')}/{name}", kind="dataset", force=force, option="--dataset")
    hint = ", or add --force to replace what a run of this name put there"
    return output_folder(Path(dataset) / name, kind="dataset", force=force, option="--dataset", hint=hint)


@contextmanager
def _filled(place: OutputFolder | StoreFolder, progress: Progress) -> Iterator[Path]:
    """A folder to fill, which becomes the partition when the block ends well."""
    if isinstance(place, OutputFolder):
        with filled(place) as unfinished:
            yield unfinished
        return
    with TemporaryDirectory(prefix="diffgen-") as temporary:
        unfinished = Path(temporary)
        yield unfinished
        send(unfinished, sorted(each.name for each in unfinished.iterdir()), place, progress)


def _arrow() -> tuple[Any, Any]:
    """pyarrow, and its Parquet. UserError if it is not installed."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise UserError("A data set needs pyarrow, which is not installed; install 'diffgen[parquet]'.") from error


_LEFT_OUT = ("checkpoint", *ANSWERS.values())  # of no use to who reads, and answers are their owner's own


@dataclass(frozen=True)
class StoredRun(Result):
    """What was sent.

    Attributes:
        run: the run folder.
        url: its copy.
        files: how many.
    """

    run: str
    url: str
    files: int


def export_to_store(
    run: str | Path,
    url: str,
    *,
    force: bool = False,
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> StoredRun:
    """Copy a finished run to ``URL/NAME``, without what only a resumed search needs; fetched again it is a run.

    Args:
        run: the run folder.
        url: of a place in a store, such as ``s3://bucket/runs`` (``pip install diffgen[storage]``, and the store's own
            package).
        force: replace an earlier copy.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: no finished run there, or a link in it; the store does not answer, or something is there already.
        RunError: the store fails on the way.
    """
    if not is_url(url):
        raise UserError(
            f"The place {url} is no URL; name one such as s3://bucket/runs, or copy the folder {run} itself."
        )
    progress, folder = Progress(events, stop), RunFolder.open(run)
    read_finished(folder)
    names = [name for name in OWN if not name.startswith(_LEFT_OUT) and folder.file(name).is_file()]
    for name, pattern in FOLDERS.items():
        if (place := folder.file(name)).is_dir():
            names += [f"{name}/{each.name}" for each in own_files(place, pattern)]
    for name in names:
        folder.file(*name.split("/"))  # no link, as a stranger may have put it, sends what lies elsewhere
    target = store_folder(f"{url.rstrip('/')}/{folder.path.absolute().name}", kind="run", force=force, option="--to")
    send(folder.path, sorted(names), target, progress)
    return StoredRun(str(folder.path), target.url, len(names))
