"""A table of answers as a model: what somebody's model said of images that are known, without the model.

It answers about the images that it lists and about no others: a search, which makes new ones, cannot ask it. Images are
named by their hash (``hash``: 32 hexadecimal digits, BLAKE2b with 16 bytes over the uint8 values, channel by channel),
by their row in the data (``id``, from 0), or not at all: then the rows are those of the data.

* ``.npz``: ``probabilities`` (N, K) or ``labels`` (N,), and ``hash`` or ``id`` (N,), or neither;
* CSV and Parquet: a column for each class, in the order of the classes, or one ``label``; and ``hash`` or ``id``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diffgen.config import Preprocessing, replace
from diffgen.errors import UserError
from diffgen.models.base import BlackBox
from diffgen.models.model_settings import ModelSettings
from diffgen.models.sniffing import ANSWER_LABELS as _LABELS
from diffgen.models.sniffing import ANSWER_NAMES as _NAMES
from diffgen.models.sniffing import ZIP_ERRORS, FileKind
from diffgen.runs.opening import read_bytes
from diffgen.runs.triggers import HASH_BYTES, image_hashes
from diffgen.types import Float32Array, ImageSet, Int64Array, UInt8Array

LARGEST = 2**33  # bytes of a file
FED = Preprocessing(channels="rgb", invert=False, size=(), scale="0..255", mean=(), std=(), layout="nchw")
_MOST_CLASSES = 2**16


class AnswerTable(BlackBox):
    """Looks answers up by the content of an image.

    Args:
        kind: an .npz, a CSV or a Parquet table.
        settings: name and so on; how images are fed to a model says nothing of a table.

    Raises:
        UserError: it is no such table.
    """

    format = "a table of answers"
    is_table = True

    def __init__(self, path: Path, kind: FileKind, settings: ModelSettings) -> None:
        super().__init__(replace(settings, preprocessing=replace(FED, outputs="probabilities", background="none")))
        self._input_device = torch.device("cpu")
        columns = _READERS[kind](path)
        self._answers, self._labels = _answers_in(columns, path)
        self._ids, self._hashes = _ids_in(columns, path), _hashes_in(columns, path)
        self._places: dict[bytes, int] = {}
        rows = len(self._answers if self._labels is None else self._labels)
        for what in (None if self._ids is None else self._ids.tolist(), self._hashes):
            if what is not None and len(set(what)) != rows:
                raise UserError(
                    f"The table {path} has {rows:,} answers but names {len(set(what)):,} different images; "
                    "give one answer for each."
                )
        if self._hashes is not None:
            self._places = {digest: row for row, digest in enumerate(self._hashes)}

    def _admit(self, preprocessing: Preprocessing) -> Preprocessing:
        return replace(FED, outputs="probabilities", background="none", antialias=True, output="")

    def bind(self, data: ImageSet) -> None:
        """Say which data set's rows the table's are; called before it is prepared.

        Raises:
            UserError: it has no answer to some of these images, or other rows than the data.
        """
        hashes = image_hashes(data.images)
        if self._hashes is None:
            rows = len(self._answers if self._labels is None else self._labels)
            ids = np.arange(rows) if self._ids is None else self._ids
            if self._ids is None and len(ids) != len(data):
                raise UserError(
                    f"The table {self.name} has {len(ids):,} rows but {data.source} has {len(data):,} images; give one "
                    "row for each, or name the images in a column id (their row, from 0) or hash."
                )
            if len(ids) and not 0 <= ids.min() <= ids.max() < len(data):
                strange = int(ids.min() if ids.min() < 0 else ids.max())
                raise UserError(
                    f"The table {self.name} names the image {strange:,}, but {data.source} has {len(data):,}, "
                    "counted from 0; give the table of these images."
                )
            self._places = {hashes[row]: place for place, row in enumerate(ids.tolist())}
        missing = [row for row, digest in enumerate(hashes) if digest not in self._places]
        if missing:
            raise UserError(
                f"The table {self.name} lacks {len(missing):,} of the {len(data):,} images of {data.source} (first, "
                f"counted from 0, {missing[0]:,}); add their answers, or leave these images out of the data."
            )
        if self._labels is not None:
            # of labels alone nothing says how many classes there are: as many as the data has, or are named
            known = len(data.class_names or ()) or (0 if data.labels is None else int(data.labels.max()) + 1)
            classes = max(2, known, len(self.own_class_names), int(self._labels.max()) + 1)
            self._answers = np.zeros((len(self._labels), classes), dtype=np.float32)
            self._answers[np.arange(len(self._labels)), self._labels] = 1

    def _ask(self, batch: torch.Tensor) -> object:
        images: UInt8Array = batch.numpy().astype(np.uint8)
        digests = image_hashes(images)
        if self._answers.shape[1] == 0:
            raise UserError(f"The table {self.name} has labels alone, so it can only be asked about a whole data set.")
        unknown = sum(digest not in self._places for digest in digests)
        if unknown:
            bound = "" if self._places else " (its rows belong to no data yet)"
            raise UserError(
                f"The table {self.name} has no answer to {unknown:,} of {len(images):,} images{bound}; it says nothing "
                "of images that it does not list."
            )
        return torch.from_numpy(self._answers[[self._places[digest] for digest in digests]])


def _answers_in(columns: Mapping[str, Any], path: Path) -> tuple[Float32Array, Int64Array | None]:
    """float32 (N, K) probabilities, or (0, 0) and int64 (N,) labels."""
    labels = next((columns[name] for name in _LABELS if name in columns), None)
    if labels is not None:
        found = np.asarray(_numbers(labels, path), dtype=np.float64).reshape(-1)
        if len(found) == 0 or not ((found == np.rint(found)) & (found >= 0) & (found < _MOST_CLASSES)).all():
            raise UserError(f"The table {path} has labels that are no classes; give whole numbers from 0.")
        return np.empty((0, 0), dtype=np.float32), found.astype(np.int64)
    if "probabilities" in columns:
        found = np.asarray(_numbers(columns["probabilities"], path), dtype=np.float64)
    else:
        own = [column for name, column in columns.items() if name not in _NAMES]
        found = np.array([_numbers(column, path) for column in own], dtype=np.float64).transpose()
    if found.ndim != 2 or len(found) == 0 or not 2 <= found.shape[-1] <= _MOST_CLASSES:
        raise UserError(
            f"The table {path} has neither labels nor a column of probabilities for each of two classes or more."
        )
    sums = found.sum(axis=1)
    if not np.isfinite(found).all() or found.min() < 0 or not np.allclose(sums, 1, atol=0.01):
        raise UserError(
            f"The table {path} has rows that are no probabilities (from 0 to 1, and 1 together); give softmax outputs."
        )
    return (found / sums[:, None]).astype(np.float32), None


def _numbers(values: Any, path: Path) -> Any:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(f"The table {path} has answers that are no numbers; give probabilities or labels.") from error


def _ids_in(columns: Mapping[str, Any], path: Path) -> Int64Array | None:
    if "id" not in columns or "hash" in columns:
        return None
    found = np.asarray(_numbers(columns["id"], path)).reshape(-1)
    if not (np.isfinite(found) & (found == np.rint(found))).all():
        raise UserError(f"The table {path} has ids that are no rows of the data; give whole numbers from 0.")
    return found.astype(np.int64)


def _hashes_in(columns: Mapping[str, Any], path: Path) -> list[bytes] | None:
    if "hash" not in columns:
        return None
    try:
        found = [bytes.fromhex(str(each)) for each in np.asarray(columns["hash"]).reshape(-1).tolist()]
    except ValueError as error:
        raise UserError(f"The table {path} has hashes that are no hexadecimal digits.") from error
    if any(len(each) != HASH_BYTES for each in found):
        raise UserError(f"The table {path} has hashes of another length than {2 * HASH_BYTES} hexadecimal digits.")
    return found


def _read_npz(path: Path) -> dict[str, Any]:
    try:
        with np.load(io.BytesIO(read_bytes(path, longest=LARGEST)), allow_pickle=False) as file:
            return {name: file[name] for name in file.files if name in (*_NAMES, *_LABELS, "probabilities")}
    except (*ZIP_ERRORS, KeyError) as error:
        raise UserError(f"The table {path} cannot be read ({error}); write it again.") from error


def _read_csv(path: Path) -> dict[str, Any]:
    try:
        rows = list(csv.reader(io.StringIO(read_bytes(path, longest=LARGEST).decode("utf-8-sig")), strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"The table {path} cannot be read ({error}); write it again.") from error
    names, *rest = rows
    rest = [row for row in rest if row]
    if any(len(row) != len(names) for row in rest):
        raise UserError(f"The table {path} has rows of other lengths than its first line; write it again.")
    return {name.strip().lower(): [row[place] for row in rest] for place, name in enumerate(names)}


def _read_parquet(path: Path) -> dict[str, Any]:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise UserError(
            f"Reading {path} takes pyarrow, which is missing; pip install 'diffgen[parquet]' brings it."
        ) from error
    try:
        table = parquet.read_table(path)
    except (OSError, ValueError) as error:
        raise UserError(f"The table {path} cannot be read ({error}); write it again.") from error
    return {name.strip().lower(): table.column(name).to_pylist() for name in table.column_names}


_READERS = {
    FileKind.ANSWERS_NPZ: _read_npz,
    FileKind.ANSWERS_CSV: _read_csv,
    FileKind.PARQUET: _read_parquet,
}
