"""Parquet tables of encoded pictures, as Hugging Face's ``datasets`` writes them: one file, or a folder of shards.

The column of pictures is a struct ``{bytes, path}`` or plain bytes; what is in it is decoded as a picture file would
be. Names of the classes come from the schema's metadata. pyarrow belongs to the extra ``parquet``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from diffgen.data.decoded import Facts
from diffgen.data.file_tree import MAX_FILE_BYTES, MAX_ZIP_BYTES, SPLIT_NAMES, FileTree, Parts, stamp_of
from diffgen.data.picture_file import decode
from diffgen.data.picture_stack import Pictures, read_pictures
from diffgen.data.reading import PictureNotes, Reading, numbered
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.runs.opening import check_regular
from diffgen.types import ImageSet, Int64Array, UInt8Array

SUFFIX = ".parquet"
MAGIC = b"PAR1"
# Used where the metadata do not say which column is which, the usual name first.
_IMAGE_NAMES = ("image", "img", "images", "picture", "jpg", "png")
_LABEL_NAMES = ("label", "labels", "fine_label", "target", "class", "y")
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})\b")


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are read.

    Attributes:
        image: name of the column of pictures.
        label: name of the column of classes, or None.
        class_names: in label order, or None where the table does not say.
    """

    image: str
    label: str | None
    class_names: tuple[str, ...] | None


def find_parquet_files(tree: FileTree, split: Literal["train", "test"] | None, source: str) -> tuple[Parts, ...]:
    """The tables of a folder that make up the data set, in order; empty if it holds none.

    A split is told by the beginning of the file's name (``test-00000-of-00001.parquet``) or by a folder that the file
    lies in. Without ``split`` the test tables are preferred, then those that name no split, then the training tables.

    Raises:
        UserError: no tables of the wished split, tables of several data sets, or a shard is missing.
    """
    files = [parts for parts in tree.files if parts[-1].lower().endswith(SUFFIX)]
    if not files:
        return ()
    by_split: dict[str | None, list[Parts]] = {}
    for parts in files:
        by_split.setdefault(_split_of(parts), []).append(parts)
    wanted: list[str | None] = [*SPLIT_NAMES[split]] if split else [*SPLIT_NAMES["test"], None, *SPLIT_NAMES["train"]]
    chosen = next((by_split[name] for name in wanted if name in by_split), None)
    if chosen is None:
        names = ", ".join("/".join(parts) for parts in files[:4])
        raise UserError(f"The folder {source!r} holds no {split} tables, only {names}; leave out ':{split}'.")
    folders = sorted({"/".join(parts[:-1]) for parts in chosen})
    if len(folders) > 1:
        raise UserError(
            f"The folder {source!r} holds tables of several data sets (in {', '.join(folders[:4])}); give one of them."
        )
    _check_shards(chosen, source)
    return tuple(sorted(chosen))


def load_parquet(files: list[Path], reading: Reading) -> ImageSet:
    """The pictures of one or more tables of the same columns, in order.

    Labels are whole numbers, or texts, which become the class names in the order of
    :func:`~.reading.sorted_names`.

    Raises:
        UserError: pyarrow is missing, a table is damaged or has no column of pictures, a picture is damaged or missing,
            pictures differ in size, or the tables do not belong together.
    """
    source, progress = reading.source, reading.progress
    tables = [_open(path) for path in files]
    columns = [_columns(table.schema_arrow, path, progress) for table, path in zip(tables, files, strict=True)]
    for other, path in zip(columns, files, strict=True):
        if other != columns[0]:
            raise UserError(
                f"The tables of {source!r} differ in their columns or class names ({files[0].name} and {path.name}); "
                "give one of them."
            )
    count = sum(table.metadata.num_rows for table in tables)
    labels: list[Any] = []

    def pictures(notes: PictureNotes) -> Iterator[tuple[str, Callable[[], UInt8Array]]]:
        labels.clear()
        for table, path in zip(tables, files, strict=True):
            for row, (content, label) in enumerate(_rows(table, columns[0], path)):
                name = f"{path.name} row {row}"
                labels.append(label)
                yield name, partial(_decoded, content, name, source, notes)

    def facts(rows: Int64Array) -> Facts:
        if columns[0].label is None:
            progress.detail(f"The table {source!r} has no column of labels; the images are used without.")
            return Facts()
        return Facts(*_numbered([labels[row] for row in rows.tolist()], columns[0], source, progress))

    return read_pictures(Pictures(count, pictures, facts, lambda: [stamp_of(files), asdict(columns[0])]), reading)


def _decoded(content: Any, name: str, source: str, notes: PictureNotes) -> UInt8Array:
    return decode(_encoded(content, name, source), name, source, notes)


def _open(path: Path) -> Any:
    """A ``pyarrow.parquet.ParquetFile``."""
    try:
        # Before 14.0.1, reading a file could run code from it: setup.cfg asks for a later one.
        import pyarrow.parquet
    except ImportError as error:
        raise UserError(
            "Parquet files need pyarrow, which is not installed; install it with pip install 'diffgen[parquet]'."
        ) from error
    try:
        check_regular(path)
        table = pyarrow.parquet.ParquetFile(path, memory_map=False, pre_buffer=False)
        metadata = table.metadata
        unpacked = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
        table.schema_arrow  # noqa: B018 (read here, where an error is expected)
    except Exception as error:
        raise _damaged(path, error) from error
    if unpacked > MAX_ZIP_BYTES:
        raise UserError(
            f"The table {str(path)!r} unpacks to more than {MAX_ZIP_BYTES // 2**30} GiB; give fewer or smaller images."
        )
    return table


def _rows(table: Any, columns: Columns, path: Path) -> Iterator[tuple[Any, Any]]:
    """Content of the column of pictures, and label or None."""
    wanted = [name for name in (columns.image, columns.label) if name is not None]
    # one by one: a table of some thousand bytes may hold one value of 100 MB in every row, written down once
    batches = table.iter_batches(batch_size=1, columns=wanted, use_threads=False)
    while True:
        try:
            batch = next(batches, None)
            if batch is None:
                return
            images = batch.column(columns.image).to_pylist()
            labels = [None] * len(images) if columns.label is None else batch.column(columns.label).to_pylist()
        except Exception as error:  # pyarrow raises its own, OSError, UnicodeDecodeError, ... on damaged pages
            raise _damaged(path, error) from error
        yield from zip(images, labels, strict=True)


def _encoded(content: Any, name: str, source: str) -> bytes:
    path = None
    if isinstance(content, dict):
        content, path = content.get("bytes"), content.get("path")
    if content is None:
        where = f"only the path {path!r}" if path else "nothing"
        raise UserError(f"The image {name!r} in {source!r} has no bytes, {where}; save the images inside the table.")
    if len(content) > MAX_FILE_BYTES:
        raise UserError(
            f"The image {name!r} in {source!r} is larger than {MAX_FILE_BYTES // 2**20} MiB; make it smaller."
        )
    return bytes(content)


def _numbered(
    labels: list[Any], columns: Columns, source: str, progress: Progress
) -> tuple[np.ndarray[Any, Any] | None, tuple[str, ...] | None]:
    """int64 labels and the names of the classes; no labels where all are -1, which is Hugging Face's "unknown"."""
    if any(label is None for label in labels):
        missing = sum(label is None for label in labels)
        raise UserError(f"Of the labels of {source!r} {missing} are missing; fill them in, or leave out their column.")
    names = columns.class_names
    if labels and isinstance(labels[0], str):
        return numbered(labels, names, source, progress)
    if labels and all(label == -1 for label in labels):
        progress.warn(f"All labels of {source!r} are -1, which stands for unknown; the images are used without labels.")
        return None, None
    return np.array(labels, dtype=np.int64), names


def _columns(schema: Any, path: Path, progress: Progress) -> Columns:
    """Choose the columns by the metadata, or else by their names and types."""
    features = _features(schema)
    # a table may hold two columns of one name, of which neither can be named
    names = [name for name in schema.names if schema.names.count(name) == 1]
    images = [name for name in names if _holds_bytes(schema.field(name).type)]
    image = _choose(images, [name for name in images if _kind(features, name) == "Image"], _IMAGE_NAMES)
    if image is None:
        found = ", ".join(f"{field.name!r} ({field.type})" for field in list(schema)[:6]) or "no column"
        found = found.replace("\n", " ")
        raise UserError(
            f"The table {str(path)!r} has no column of encoded images, only {found}; save one called 'image' with "
            "the bytes of PNG or JPEG files."
        )
    labels = [name for name in names if name != image and _holds_labels(schema.field(name).type)]
    classes = [name for name in labels if _kind(features, name) == "ClassLabel"]
    label = _choose(labels, classes, _LABEL_NAMES, guess=False)
    if label is None and classes:
        progress.warn(
            f"The table {str(path)!r} has several columns of classes ({', '.join(classes)}), none of them called "
            "'label'; the images are used without labels."
        )
    class_names = features[label].get("names") if label is not None and label in classes else None
    return Columns(image, label, tuple(class_names) if isinstance(class_names, list) else None)


def _choose(fitting: list[str], marked: list[str], usual: tuple[str, ...], *, guess: bool = True) -> str | None:
    """A column with a usual name, of the marked ones first; or else the only marked one, or the only fitting one."""
    for group in (marked, fitting):
        for name in usual:
            if name in group:
                return name
        if len(group) == 1 and (guess or group is marked):
            return group[0]
    return None


def _features(schema: Any) -> dict[str, Any]:
    """Column -> its description by ``datasets``; empty where there is none or it is damaged."""
    try:
        described = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    if not isinstance(described, dict):
        return {}
    return {name: feature for name, feature in described.items() if isinstance(feature, dict)}


def _kind(features: dict[str, Any], name: str) -> Any:
    return features.get(name, {}).get("_type")


def _holds_bytes(kind: Any) -> bool:
    import pyarrow

    if pyarrow.types.is_struct(kind):
        return any(
            kind.field(index).name == "bytes" and _holds_bytes(kind.field(index).type) for index in range(len(kind))
        )
    return bool(pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind))


def _holds_labels(kind: Any) -> bool:
    import pyarrow

    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (pyarrow.types.is_integer, pyarrow.types.is_string, pyarrow.types.is_large_string)
    return any(test(kind) for test in tests)


def _split_of(parts: Parts) -> str | None:
    """The split that a path names: the file first, then the folders from the inside."""
    start = re.split(r"[-_.]", parts[-1].lower(), maxsplit=1)[0]
    known = {name for names in SPLIT_NAMES.values() for name in names}
    return next((name for name in (start, *reversed([folder.lower() for folder in parts[:-1]])) if name in known), None)


def _check_shards(files: list[Parts], source: str) -> None:
    """Refuse half a data set: shards say how many there should be."""
    shards = [match for parts in files if (match := _SHARD.search(parts[-1]))]
    totals = {int(match[2]) for match in shards}
    if len(totals) != 1 or len(shards) != len(files):
        return  # no shards, or several data sets, which differ in their columns or are meant to be joined
    missing = sorted(set(range(totals.pop())) - {int(match[1]) for match in shards})
    if missing:
        number = f"{missing[0]:05d}-of-{shards[0][2]}"
        raise UserError(f"The shard {number} is missing in {source!r}; fetch it, or give the path of a single shard.")


def _damaged(path: Path, error: Exception) -> UserError:
    reason = (str(error) or type(error).__name__).partition("\n")[0].rstrip(". ")
    reason = reason.replace(". ", "; ")
    return UserError(f"The table {str(path)!r} cannot be read ({reason}); it is damaged, so fetch it again.")
