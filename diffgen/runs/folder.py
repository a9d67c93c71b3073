"""A run folder: where everything about one run is kept.

::

    config.toml        every setting, enough to repeat the run
    manifest.json      versions, file hashes, seeds, device, batch size, the parts written so far
    triggers/          part-00000.npz, ...: all triggers, never changed once the manifest names them
    checkpoint.npz     state of the search after a whole generation, or that it is finished
    checkpoint.previous.npz   the one before, for the case that something is wrong with the newest
    lock               while a process works in the folder
    answers-A.sqlite   what a remote model A has answered, so that no image is paid for twice; B's likewise
    probe.npz          what the models said of a few real images, so that a resumed run asks the same ones
    verdicts.npz       filter scores, reason of rejection, cell and confirmation of every trigger
    report.npz         arrays of the report: real disagreements, held-out scores, generator samples
    operators.npz      curves of how the models answer as an operator gets stronger
    outcomes.npz       what the technique itself counted, of techniques that count
    shrunk.npz         what `diffgen shrink` found
    results.json       the figures
    check.npz          pictures of the behaviours that `diffgen check` met
    cause.npz          why the two models differ, as `diffgen explain` found it
    report.html summary.md junit.xml
    images/            the pictures of the report
    labels.npz         what the pictures show, as people, reference models or the generator said
    rank.npz           the real images on the short list of `diffgen rank`, and what the models said of them
    selector.onnx      which model to trust, from the picture alone
    selection.npz      how good it is
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from diffgen.errors import RunError, UserError
from diffgen.runs import schema
from diffgen.runs.arrays import check_arrays, read_arrays, write_arrays
from diffgen.runs.creation import (
    ANSWERS,
    CONCLUSIONS,
    FOLDERS,
    OWN,
    PART,
    UNREADABLE,
    check_output,
    own_files,
    read_json,
    remove,
    remove_named,
)
from diffgen.runs.files import make_folder, remove_temporaries, write_json, write_text
from diffgen.runs.images import ImageColumn, ImagePart
from diffgen.runs.opening import inside, read_text
from diffgen.runs.triggers import TriggerTable, Verdicts
from diffgen.types import UInt8Array

SCHEMA_VERSION = 2
_NEWEST, _PREVIOUS = "checkpoint.npz", "checkpoint.previous.npz"
_IMAGES = "images"
# of a run without triggers nobody knows the shape of the images, nor the classes
_NO_SHAPE, _NO_CLASSES = (1, 1, 1), 1
_UNFIT = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


class RunFolder:
    """An existing run folder; made by :meth:`create`, found by :meth:`open`."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def create(cls, path: Path, *, config: Mapping[str, Any], manifest: Mapping[str, Any], force: bool) -> RunFolder:
        """Make the folder and write config.toml and manifest.json; with ``force`` an older run in it is removed.

        Only files that a run makes are ever removed.

        Raises:
            UserError: see :func:`check_output`.
        """
        path = check_output(path, force=force)
        make_folder(path)
        remove(path, OWN)
        folder = cls(path, {"schema_version": SCHEMA_VERSION, **manifest, "parts": []})
        try:
            folder.save_manifest()
            folder.make_folder("triggers")
            folder.write_config(config)
        except KeyboardInterrupt:
            remove(path, OWN)  # a manifest alone is nothing to go on with, and would stand in the way of another start
            raise
        return folder

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """An existing run.

        Raises:
            UserError: there is no run at that place, it is damaged, or another version of diffgen wrote it.
        """
        path = Path(path)
        file = inside(path, "manifest.json")
        if not file.is_file():
            raise UserError(
                f"{path} is not a run folder (it has no manifest.json); give the folder that compare wrote."
            )
        try:
            manifest = read_json(path, file.name)
            version = int(manifest["schema_version"])
            if version == SCHEMA_VERSION:
                schema.MANIFEST(manifest)
        except UNREADABLE as error:
            raise UserError(f"The manifest {file} cannot be read ({error}); the run folder is damaged.") from error
        if version != SCHEMA_VERSION:
            raise UserError(
                f"The run {path} has schema {version}, and this diffgen reads schema {SCHEMA_VERSION}; read it with "
                "the version that made it, or make the run again."
            )
        return cls(path, manifest)

    def check_description(self) -> None:
        """See that the manifest says which models and data the run is about. UserError if the folder is damaged."""
        try:
            schema.DESCRIPTION(self.manifest)
        except ValueError as error:
            raise UserError(
                f"The manifest {self.path / 'manifest.json'} cannot be used ({error}); the run folder is damaged."
            ) from error

    @property
    def model_names(self) -> tuple[str, ...]:
        """What the models are called, A first."""
        files = self.manifest["files"]
        return tuple(files[role]["name"] for role in sorted(files))

    @property
    def trigger_count(self) -> int:
        """How many triggers the manifest speaks of."""
        return sum(part["rows"] for part in self.manifest["parts"])

    @contextmanager
    def reading(self) -> Iterator[None]:
        """For a block that only makes something of values from this folder: what does not fit is damage, and said so.

        Raises:
            UserError: a value is missing, or of another kind than it should be.
        """
        try:
            yield
        except _UNFIT as error:
            said = f"{type(error).__name__}: {error}"
            raise UserError(
                f"The run folder {self.path} holds values that do not fit together ({said[:200]}); it is damaged."
            ) from error

    def write_config(self, config: Mapping[str, Any]) -> None:
        write_text(self.path / "config.toml", tomli_w.dumps(dict(config)))

    def config(self) -> dict[str, Any]:
        """config.toml as nested values. UserError if it is missing or damaged."""
        file = self.file("config.toml")
        if not file.exists():
            raise UserError(
                f"The run {self.path} broke off before its settings were written (it has no config.toml); "
                "start it again with --force."
            )
        try:
            return tomllib.loads(read_text(file, links=False))
        except UNREADABLE as error:
            raise UserError(f"The settings {file} cannot be read ({error}); the run folder is damaged.") from error

    def file(self, *names: str) -> Path:
        """Where something in this folder is, or is to be; see :func:`diffgen.runs.opening.inside`.

        Raises:
            UserError: a symbolic link or a special file stands there, as a stranger may have put it.
        """
        return inside(self.path, *names)

    def make_folder(self, name: str) -> Path:
        """Make a folder in this one.

        Raises:
            UserError: see :meth:`file`.
            RunError: the disk is full.
        """
        place = self.file(name)
        make_folder(place)
        return place

    def save_manifest(self, **changes: Any) -> None:
        """Replace manifest.json, with ``changes`` applied; when that fails, nothing has changed here either."""
        changed = {**self.manifest, **changes}
        write_json(self.path / "manifest.json", changed)
        self.manifest = changed

    def tidy(self) -> None:
        """Remove half-written files, as a killed process leaves them; only while no other one writes to the folder."""
        remove_temporaries(self.path, re.compile("|".join(map(re.escape, OWN))))
        for name, pattern in FOLDERS.items():
            remove_temporaries(self.file(name), pattern)

    def rewind(self, parts: int) -> None:
        """Go back to the first ``parts`` parts, and delete verdicts, figures and report, which cover later parts."""
        remove(self.path, CONCLUSIONS)
        if parts < len(self.manifest["parts"]):
            self.save_manifest(parts=self.manifest["parts"][:parts])
        triggers = self.make_folder("triggers")
        named = {part["file"] for part in self.manifest["parts"]}
        remove_named(triggers, [each.name for each in own_files(triggers, PART) if each.name not in named])

    # -- triggers ----------------------------------------------------------------------------------------------------

    def write_part(self, table: TriggerTable) -> None:
        """Write the next part of the triggers, then name it in the manifest."""
        parts = self.manifest["parts"]
        name = f"part-{len(parts):05d}.npz"
        write_arrays(self.file("triggers", name), table.columns())
        self.save_manifest(parts=[*parts, {"file": name, "rows": len(table)}])

    def read_triggers(
        self, count: int | None = None, *, first: int = 0, images: ImageColumn | None = None
    ) -> TriggerTable:
        """All triggers, or those of some parts; their images are read when they are first asked for.

        Args:
            count: parts up to this one, or None: all.
            first: the parts before it are left out.
            images: the triggers' images where they are in memory already, or None.

        Raises:
            UserError: a part is missing or damaged.
        """
        found: list[dict[str, Any]] = []
        later: list[ImagePart] = []
        for part in self.manifest["parts"][first:count]:
            columns, file = self._columns(part, found[0] if found else None)
            later.append(ImagePart(part["rows"], partial(_images, file, columns[_IMAGES])))
            found.append(columns)
        shape = found[0][_IMAGES].shape[1:] if found else _NO_SHAPE
        column = ImageColumn(later, shape) if images is None else images
        if not found:
            return TriggerTable.empty(column.shape, self._model_count, _NO_CLASSES)
        names = [name for name in found[0] if name != _IMAGES]
        # column by column, and each let go of as it is joined: a large run is not in memory twice
        joined = {name: np.concatenate([each.pop(name) for each in found]) for name in names}
        try:
            return TriggerTable.from_columns(column, joined)
        except KeyError as error:
            raise _damaged(self.path / "triggers", f"there is no column {error}") from error

    @property
    def _model_count(self) -> int:
        return len(self.manifest.get("files", "AB"))

    def _columns(self, part: Mapping[str, Any], first: dict[str, Any] | None) -> tuple[dict[str, Any], Path]:
        """The columns of a part, of the images only their shape; and its file."""
        file = self.path / "triggers"
        try:
            if not PART.fullmatch(part["file"]):
                raise ValueError(f"the manifest names a part {part['file']!r}")
            file = self.file("triggers", part["file"])
            columns = read_arrays(file, unread=_IMAGES)
            check_arrays("part", columns)
            if any(len(column) != part["rows"] for column in columns.values()):
                raise ValueError("its columns differ in length")
            answered = columns["probabilities"].shape[1]
            if answered != self._model_count:
                raise ValueError(f"it has answers of {answered} models, and the manifest names {self._model_count}")
            if first is not None and _kinds(columns) != _kinds(first):
                raise ValueError("its columns are not those of the first part")
            if _IMAGES not in columns:
                raise ValueError("it has no images")
        except UNREADABLE as error:
            raise _damaged(file, error) from error
        return columns, file

    def read_judged(self) -> TriggerTable:
        """All triggers with verdicts; see :meth:`read_triggers`. UserError if the run has not ended, or is damaged."""
        verdicts = Verdicts.from_arrays(self.read_arrays("verdicts"))
        return self.read_triggers().judged(verdicts)

    # -- everything else ---------------------------------------------------------------------------------------------

    def answers_file(self, role: str) -> Path:
        """Where the answers of a remote model A, B, ... are kept.

        Raises:
            UserError: see :meth:`file`; SQLite itself would follow a link.
        """
        for ending in ("-wal", "-shm", "-journal"):
            self.file(f"{ANSWERS[role]}{ending}")
        return self.file(ANSWERS[role])

    def write_arrays(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Write ``verdicts``, ``report`` or ``shrunk`` arrays."""
        write_arrays(self.file(f"{name}.npz"), arrays, compress=True)

    def read_arrays(self, name: str) -> dict[str, Any]:
        """What :meth:`write_arrays` wrote. UserError if the run did not come to its end, or the file is damaged."""
        file = self.file(f"{name}.npz")
        if not file.is_file():
            raise UserError(
                f"The run {self.path} did not come to its end (it has no {file.name}); resume it with --resume."
            )
        try:
            found = read_arrays(file)
            check_arrays(name, found, triggers=self.trigger_count)
            return found
        except UNREADABLE as error:
            raise UserError(f"The file {file} cannot be read ({error}); the run folder is damaged.") from error

    def has_arrays(self, name: str) -> bool:
        """Whether :meth:`write_arrays` wrote these."""
        return self.file(f"{name}.npz").is_file()

    def results(self) -> dict[str, Any]:
        """results.json. UserError if the run did not come to its end, or the file is damaged."""
        file = self.file("results.json")
        if not file.is_file():
            raise UserError(
                f"The run {self.path} did not come to its end (it has no results.json); resume it with --resume."
            )
        try:
            return read_json(self.path, file.name)
        except UNREADABLE as error:
            raise UserError(f"The figures {file} cannot be read ({error}); the run folder is damaged.") from error

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def write_checkpoint(self, state: Mapping[str, Any]) -> None:
        """Put a new checkpoint of the search in front of the one before, which is kept."""
        write_arrays(self.file(_NEWEST), state, keep_as=self.file(_PREVIOUS))

    def has_checkpoint(self) -> bool:
        """Whether there is a newest checkpoint, damaged or not."""
        return self.file(_NEWEST).exists()

    def read_checkpoint(self) -> dict[str, Any] | None:
        """The newest state of the search, or None when there is none that can be read."""
        try:
            return read_arrays(self.file(_NEWEST))
        except UNREADABLE:
            return None

    def drop_checkpoint(self) -> bool:
        """Put the checkpoint before in the place of the newest; False when there is none before."""
        newest, previous = self.file(_NEWEST), self.file(_PREVIOUS)
        try:
            if previous.exists():
                os.replace(previous, newest)
                return True
            newest.unlink(missing_ok=True)
        except OSError as error:
            raise RunError(f"The folder {self.path} cannot be changed ({error.strerror}); see who owns it.") from error
        return False


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
