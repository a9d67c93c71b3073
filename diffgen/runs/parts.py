"""Reads the parts of a run's triggers, as if an enemy had written them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from diffgen.errors import UserError
from diffgen.runs.array_schema import check_arrays
from diffgen.runs.arrays import read_arrays
from diffgen.runs.creation import PART, UNREADABLE
from diffgen.runs.images import ImageColumn, ImagePart
from diffgen.runs.triggers import TriggerTable, current_names
from diffgen.tasks.kept_answers import ALL_KEPT, KeptAnswers
from diffgen.types import UInt8Array

_IMAGES = "images"
# of a run without triggers nobody knows the shape of the images, nor the classes
_NO_SHAPE, _NO_CLASSES = (1, 1, 1), 1


class Folder(Protocol):
    """What is asked of a run folder."""

    path: Path
    manifest: dict[str, Any]

    def file(self, *names: str) -> Path: ...


def read_parts(folder: Folder, parts: Sequence[Mapping[str, Any]], images: ImageColumn | None) -> TriggerTable:
    """The triggers of some parts, in their order; images are read when they are first asked for.

    Args:
        folder: of the run.
        parts: what the manifest says of them.
        images: the triggers' images where they are in memory already, or None.

    Raises:
        UserError: a part is missing or damaged.
    """
    found: list[dict[str, Any]] = []
    later: list[ImagePart] = []
    for part in parts:
        columns, file = _columns(folder, part, found[0] if found else None)
        later.append(ImagePart(part["rows"], partial(_images, file, columns[_IMAGES])))
        found.append(columns)
    shape = found[0][_IMAGES].shape[1:] if found else _NO_SHAPE
    column = ImageColumn(later, shape) if images is None else images
    if not found:
        models = len(folder.manifest.get("files", "AB"))
        return TriggerTable.empty(column.shape, models, _NO_CLASSES)
    names = [name for name in found[0] if name != _IMAGES]
    # column by column, and each let go of as it is joined: a large run is not in memory twice
    joined = {name: np.concatenate([each.pop(name) for each in found]) for name in names}
    try:
        return TriggerTable.from_columns(column, joined)
    except KeyError as error:
        raise _damaged(folder.path / "triggers", f"there is no column {error}") from error


def _columns(folder: Folder, part: Mapping[str, Any], first: dict[str, Any] | None) -> tuple[dict[str, Any], Path]:
    """The columns of a part, of the images only their shape; and its file."""
    file = folder.path / "triggers"
    try:
        if not PART.fullmatch(part["file"]):
            raise ValueError(f"the manifest names a part {part['file']!r}")
        file = folder.file("triggers", part["file"])
        columns = current_names(read_arrays(file, unread=_IMAGES))
        check_arrays("part", columns)
        if any(len(column) != part["rows"] for column in columns.values()):
            raise ValueError("its columns differ in length")
        answered, named = columns["probabilities"].shape[1], len(folder.manifest.get("files", "AB"))
        if answered != named:
            raise ValueError(f"it has answers of {answered} models, and the manifest names {named}")
        if "classes" not in columns and columns["probabilities"].shape[2] > ALL_KEPT:
            # an earlier version kept every probability
            kept = KeptAnswers.of(columns["probabilities"])
            assert kept.classes is not None
            columns |= {"probabilities": kept.probabilities, "classes": kept.classes}
        if first is not None and _kinds(columns) != _kinds(first):
            raise ValueError("its columns are not those of the first part")
        if _IMAGES not in columns:
            raise ValueError("it has no images")
    except UNREADABLE as error:
        raise _damaged(file, error) from error
    return columns, file


def _images(file: Path, like: UInt8Array) -> UInt8Array:
    """The images of a part whose shape was read before."""
    try:
        images: UInt8Array = read_arrays(file, only=_IMAGES)[_IMAGES]
        if (images.dtype, images.shape) != (like.dtype, like.shape):
            raise ValueError("it has changed while it was read")
    except UNREADABLE as error:
        raise _damaged(file, error) from error
    return images


def _damaged(file: Path, error: object) -> UserError:
    return UserError(f"The triggers {file} cannot be read ({error}); the run folder is damaged.")


def _kinds(columns: Mapping[str, Any]) -> dict[str, tuple[object, tuple[int, ...]]]:
    """Name -> type and shape of one row; texts may be of any length."""
    kinds: dict[str, tuple[object, tuple[int, ...]]] = {}
    for name, column in columns.items():
        kind = np.asarray(column).dtype
        kinds[name] = ("text" if kind.kind == "S" else kind, np.shape(column)[1:])
    return kinds
