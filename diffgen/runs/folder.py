"""A run folder: where everything about one run is kept.

::

    config.toml        every setting, enough to repeat the run
    manifest.json      versions, file hashes, seeds, device, batch size, the parts written so far
    triggers/          part-00000.npz, ...: all triggers, never changed once the manifest names them
    checkpoint.npz     state of the search after a whole generation, or that it is finished
    checkpoint.previous.npz   the one before, for the case that something is wrong with the newest
    lock               while a process works in the folder
    answers-A.sqlite   what a remote model A has answered, so that no image is paid for twice; B's likewise
    verdicts.npz       filter scores, reason of rejection, cell and confirmation of every trigger
    report.npz         arrays of the report: real disagreements, held-out scores, generator samples
    shrunk.npz         what `diffgen shrink` found
    results.json       the figures
    check.npz          pictures of the behaviours that `diffgen check` met
    report.html summary.md junit.xml
    images/            the pictures of the report
    labels.npz         what the pictures show, as people, reference models or the generator said
    selector.onnx      which model to trust, from the picture alone
    selection.npz      how good it is
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from diffgen.errors import RunError, UserError
from diffgen.runs import schema
from diffgen.runs.arrays import read_arrays, write_arrays
from diffgen.runs.files import make_folder, remove_temporaries, write_json, write_text
from diffgen.runs.lock import LOCK_NAME
from diffgen.runs.opening import inside, read_text
from diffgen.runs.outputs import check_writable, resolved_output

SCHEMA_VERSION = 1
_SELECTION = ("selector.onnx", "selection.npz")
# what is made of the triggers once the search is over
_CONCLUSIONS = (
    "verdicts.npz",
    "report.npz",
    "shrunk.npz",
    "check.npz",
    *_SELECTION,
    "results.json",
    "report.html",
    "summary.md",
    "junit.xml",
    "images",
)
_ANSWERS = {role: f"answers-{role}.sqlite" for role in "AB"}
# the manifest last: it is what tells a run that --force may replace, also when the replacing was cut short
_OWN = (
    "labels.npz",
    "config.toml",
    "triggers",
    "checkpoint.npz",
    "checkpoint.previous.npz",
    *(name + ending for name in _ANSWERS.values() for ending in ("", "-wal", "-shm")),  # as SQLite names them
    *_CONCLUSIONS,
    "manifest.json",
)
# what lies in the folders of a run: of other names nothing is read and nothing removed there
_FOLDERS = {
    "triggers": re.compile(r"part-\d{5,9}\.npz"),
    "images": re.compile(r"trigger-\d{6,12}-A\d{1,9}-B\d{1,9}\.png"),
}
_PART = _FOLDERS["triggers"]
_CHECKPOINTS = ("checkpoint.npz", "checkpoint.previous.npz")
_UNFIT = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError)


def check_output(path: Path, *, force: bool) -> Path:
    """Say before anything is computed that a folder cannot take a new run.

    Returns:
        the folder to make, see :func:`diffgen.runs.outputs.resolved_output`.

    Raises:
        UserError: it is a file, it is not empty and ``force`` is not set, it is not empty and what ``force`` would
            remove was not made by a run, or no folder can be made there.
    """
    try:
        path = resolved_output(path)
        if (path.exists() or path.is_symlink()) and not path.is_dir():
            raise UserError(f"The output {path} is a file; name a folder with -o.")
        if path.is_dir() and any(each.name != LOCK_NAME for each in path.iterdir()):
            _check_replaceable(path, force=force)
        check_writable(path)
    except OSError as error:
        raise UserError(f"The output folder {path} cannot be made ({error.strerror}); name another with -o.") from error
    return path


def _check_replaceable(path: Path, *, force: bool) -> None:
    if not force:
        raise UserError(
            f"The output folder {path} is not empty; name another with -o, or add --force to replace the run in it."
        )
    try:
        manifest = _read_json(path, "manifest.json")
        # a web page and many other things have a manifest.json too; every version wrote these three
        is_run = isinstance(manifest["schema_version"], int) and isinstance(manifest["parts"], list)
    except (*_UNREADABLE, UserError):
        is_run = False
    at_risk = [name for name in _OWN if os.path.lexists(path / name)]
    if at_risk and not is_run:
        raise UserError(
            f"The output folder {path} holds no run, so --force does not replace its {at_risk[0]}; "
            "name another with -o."
        )


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    value = json.loads(read_text(inside(folder, name), links=False))
    if not isinstance(value, dict):
        raise ValueError("it holds no table of names and values")
    return value


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
        _remove(path, _OWN)
        folder = cls(path, {"schema_version": SCHEMA_VERSION, **manifest, "parts": []})
        folder.save_manifest()
        folder.make_folder("triggers")
        write_text(path / "config.toml", tomli_w.dumps(dict(config)))
        return folder

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """An existing run.

        Raises:
            UserError: there is no run at that place, or a version of diffgen wrote it that is too new.
        """
        path = Path(path)
        file = inside(path, "manifest.json")
        if not file.is_file():
            raise UserError(
                f"{path} is not a run folder (it has no manifest.json); give the folder that compare wrote."
            )
        try:
            manifest = _read_json(path, file.name)
            version = int(manifest["schema_version"])
            if version <= SCHEMA_VERSION:
                schema.MANIFEST(manifest)
        except _UNREADABLE as error:
            raise UserError(f"The manifest {file} cannot be read ({error}); the run folder is damaged.") from error
        if version > SCHEMA_VERSION:
            raise UserError(
                f"The run {path} was written by a newer diffgen (schema {version}); upgrade diffgen to read it."
            )
        return cls(path, manifest)

    def check_description(self) -> None:
        """See that the manifest says which models and data the run is about.

        Raises:
            UserError: it does not; the folder is damaged.
        """
        try:
            schema.DESCRIPTION(self.manifest)
        except ValueError as error:
            raise UserError(
                f"The manifest {self.path / 'manifest.json'} cannot be used ({error}); the run folder is damaged."
            ) from error

    @property
    def triggers(self) -> int:
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

    def config(self) -> dict[str, Any]:
        """config.toml as nested values.

        Raises:
            UserError: missing or damaged.
        """
        file = self.file("config.toml")
        if not file.exists():
            raise UserError(
                f"The run {self.path} broke off before its settings were written (it has no config.toml); "
                "start it again with --force."
            )
        try:
            return tomllib.loads(read_text(file, links=False))
        except _UNREADABLE as error:
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
        remove_temporaries(self.path, re.compile("|".join(map(re.escape, _OWN))))
        for name, pattern in _FOLDERS.items():
            remove_temporaries(self.file(name), pattern)

    def rewind(self, parts: int) -> None:
        """Go back to the first ``parts`` parts, and delete verdicts, figures and report, which cover later parts."""
        _remove(self.path, _CONCLUSIONS)
        if parts < len(self.manifest["parts"]):
            self.save_manifest(parts=self.manifest["parts"][:parts])
        triggers = self.make_folder("triggers")
        named = {part["file"] for part in self.manifest["parts"]}
        _remove_named(triggers, [each.name for each in _own_files(triggers, _PART) if each.name not in named])

    # -- triggers ----------------------------------------------------------------------------------------------------

    def write_part(self, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Write the next part of the triggers, then name it in the manifest."""
        parts = self.manifest["parts"]
        name = f"part-{len(parts):05d}.npz"
        write_arrays(self.file("triggers", name), columns)
        self.save_manifest(parts=[*parts, {"file": name, "rows": len(columns["query"])}])

    def read_parts(self, count: int | None = None) -> dict[str, np.ndarray[Any, Any]]:
        """All triggers, or those of the first ``count`` parts: every column, concatenated; empty when there are none.

        Raises:
            UserError: a part is missing or truncated.
        """
        parts: list[dict[str, Any]] = []
        for part in self.manifest["parts"][:count]:
            file = self.path / "triggers"
            try:
                if not _PART.fullmatch(part["file"]):
                    raise ValueError(f"the manifest names a part {part['file']!r}")
                file = self.file("triggers", part["file"])
                columns = read_arrays(file)
                schema.check_arrays("part", columns)
                if any(len(column) != part["rows"] for column in columns.values()):
                    raise ValueError("its columns differ in length")
                if parts and _kinds(columns) != _kinds(parts[0]):
                    raise ValueError("its columns are not those of the first part")
            except _UNREADABLE as error:
                raise UserError(f"The triggers {file} cannot be read ({error}); the run folder is damaged.") from error
            parts.append(columns)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}

    # -- everything else ---------------------------------------------------------------------------------------------

    def answers_file(self, role: str) -> Path:
        """Where the answers of a remote model A or B are kept.

        Raises:
            UserError: see :meth:`file`; SQLite itself would follow a link.
        """
        for ending in ("-wal", "-shm", "-journal"):
            self.file(f"{_ANSWERS[role]}{ending}")
        return self.file(_ANSWERS[role])

    def write_checkpoint(self, state: Mapping[str, Any]) -> None:
        """Put a new checkpoint of the search in front of the one before, which is kept."""
        newest, previous = map(self.file, _CHECKPOINTS)
        write_arrays(newest, state, keep_as=previous)

    def has_checkpoint(self) -> bool:
        """Whether there is a newest checkpoint, damaged or not."""
        return self.file(_CHECKPOINTS[0]).exists()

    def read_checkpoint(self) -> dict[str, Any] | None:
        """The newest state of the search, or None when there is none that can be read."""
        try:
            return read_arrays(self.file(_CHECKPOINTS[0]))
        except _UNREADABLE:
            return None

    def drop_checkpoint(self) -> bool:
        """Put the checkpoint before in the place of the newest; False when there is none before."""
        newest, previous = map(self.file, _CHECKPOINTS)
        try:
            if previous.exists():
                os.replace(previous, newest)
                return True
            newest.unlink(missing_ok=True)
        except OSError as error:
            raise RunError(f"The folder {self.path} cannot be changed ({error.strerror}); see who owns it.") from error
        return False

    def write_arrays(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Write ``verdicts``, ``report`` or ``shrunk`` arrays."""
        write_arrays(self.file(f"{name}.npz"), arrays, compress=True)

    def read_arrays(self, name: str) -> dict[str, Any]:
        """What :meth:`write_arrays` wrote.

        Raises:
            UserError: the run did not come to its end, or the file is damaged.
        """
        file = self.file(f"{name}.npz")
        if not file.is_file():
            raise UserError(
                f"The run {self.path} did not come to its end (it has no {file.name}); resume it with --resume."
            )
        try:
            found = read_arrays(file)
            schema.check_arrays(name, found, triggers=self.triggers)
            return found
        except _UNREADABLE as error:
            raise UserError(f"The file {file} cannot be read ({error}); the run folder is damaged.") from error

    def has_arrays(self, name: str) -> bool:
        """Whether :meth:`write_arrays` wrote these."""
        return self.file(f"{name}.npz").is_file()

    def results(self) -> dict[str, Any]:
        """results.json.

        Raises:
            UserError: the run did not come to its end, or the file is damaged.
        """
        file = self.file("results.json")
        if not file.is_file():
            raise UserError(
                f"The run {self.path} did not come to its end (it has no results.json); resume it with --resume."
            )
        try:
            results = _read_json(self.path, file.name)
            schema.RESULTS(results)
            schema.check_agreement(results)
            return results
        except _UNREADABLE as error:
            raise UserError(f"The figures {file} cannot be read ({error}); the run folder is damaged.") from error


def _remove(folder: Path, names: Iterable[str]) -> None:
    """Remove files of a run, and of its folders what a run makes there; whatever else is in them stays."""
    for name in names:
        place = folder / name
        pattern = _FOLDERS.get(name)
        if pattern is None or place.is_symlink() or not place.is_dir():
            _remove_named(folder, [name])
            continue
        _remove_named(place, [each.name for each in _own_files(place, pattern)])
        try:
            if not any(place.iterdir()):
                os.rmdir(place)
        except OSError as error:
            raise _unchangeable(folder, error) from error


def _own_files(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    try:
        return [each for each in folder.iterdir() if pattern.fullmatch(each.name)]
    except OSError as error:
        raise _unchangeable(folder, error) from error


def _remove_named(folder: Path, names: Iterable[str]) -> None:
    try:
        for name in names:
            old = folder / name
            if os.path.lexists(old) and stat.S_ISDIR(old.lstat().st_mode):
                raise UserError(f"{old} is a folder, which diffgen did not make there; move it away.")
            old.unlink(missing_ok=True)
    except OSError as error:
        raise _unchangeable(folder, error) from error


def _unchangeable(folder: Path, error: OSError) -> RunError:
    return RunError(f"The folder {folder} cannot be changed ({error.strerror}); see who owns it.")


def _kinds(columns: Mapping[str, Any]) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """Name -> type and shape of one row."""
    return {name: (np.asarray(column).dtype, np.shape(column)[1:]) for name, column in columns.items()}
