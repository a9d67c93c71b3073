"""Writes the triggers of a run as part of a Parquet data set, pictures included, for programs that know no diffgen.

Runs in one folder are partitions of one data set: ``FOLDER/run=NAME/part-00000.parquet``. Read it with

    duckdb:  SELECT run, count(*) FROM read_parquet('FOLDER/*/*.parquet', hive_partitioning = true) GROUP BY run
    polars:  pl.scan_parquet('FOLDER/*/*.parquet', hive_partitioning=True)
    ray:     ray.data.read_parquet('FOLDER')
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.runs.files import write_whole
from diffgen.runs.folder import RunFolder
from diffgen.runs.outputs import OutputFolder, filled, output_folder
from diffgen.runs.pictures import png_bytes
from diffgen.runs.results import read_finished
from diffgen.runs.stores import StoreFolder, is_url, send, store_folder
from diffgen.runs.triggers import TriggerTable
from diffgen.workflows.export import arrow_schema, columns_of, row_of
from diffgen.workflows.tables import safe_name

_ROWS = 4096  # of a part


@dataclass(frozen=True)
class DatasetResult:
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

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


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
    with folder.reading():
        results = read_finished(folder)
        triggers = folder.read_judged()
        triggers = triggers[triggers.confirmed]
        filters = [each.name for each in results.filters]
    parts = max(1, -(-len(triggers) // _ROWS))
    with _filled(place, progress) as unfinished, progress.stage("Writing the data set", total=len(triggers)) as task:
        for part in range(parts):
            some = triggers[np.arange(part * _ROWS, min(len(triggers), (part + 1) * _ROWS))]
            with folder.reading():
                rows = list(_rows(some, results.class_names, filters))
            columns = columns_of(rows, filters, models=triggers.probabilities.shape[1])
            del columns["file"]
            columns |= {"valid": some.valid.tolist(), "distinct": some.distinct.tolist()}
            picture = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
            kinds = [*arrow_schema(arrow, columns), ("image", picture)]
            columns["image"] = [{"bytes": png_bytes(image), "path": None} for image in some.images]
            table = arrow.table(columns, schema=arrow.schema(kinds))
            _write(parquet, table, unfinished / f"part-{part:05d}.parquet")
            task.advance(len(some))
    where = place.url if isinstance(place, StoreFolder) else str(place.path)
    return DatasetResult(str(folder.path), where, len(triggers), parts)


def _place(dataset: str | Path, name: str, *, force: bool) -> OutputFolder | StoreFolder:
    """Where the partition is to be.

    Raises:
        UserError: it cannot be there.
    """
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


def _write(parquet: Any, table: Any, path: Path) -> None:
    write_whole(path, lambda temporary: parquet.write_table(table, temporary))


def _rows(triggers: TriggerTable, classes: tuple[str, ...], filters: list[str]) -> Iterator[dict[str, Any]]:
    for row in range(len(triggers)):
        yield row_of(triggers, row, classes, filters)


def _arrow() -> tuple[Any, Any]:
    """pyarrow, and its Parquet.

    Raises:
        UserError: it is not installed.
    """
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise UserError("A data set needs pyarrow, which is not installed; install 'diffgen[parquet]'.") from error
