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
import shutil
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from diffgen.errors import RunError, UserError
from diffgen.runs.files import make_folder, read_arrays, remove_temporaries, write_arrays, write_json, write_text
from diffgen.runs.lock import LOCK_NAME

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
_CHECKPOINTS = ("checkpoint.npz", "checkpoint.previous.npz")
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, RecursionError)


def check_output(path: Path, *, force: bool) -> None:
    """Say before anything is computed that a folder cannot take a new run.

    Raises:
        UserError: it is a file, it is not empty and ``force`` is not set, it is not empty and what ``force`` would
            remove was not made by a run, or no folder can be made there.
    """
    try:
        if (path.exists() or path.is_symlink()) and not path.is_dir():
            raise UserError(f"The output {path} is a file; name a folder with -o.")
        if path.is_dir() and any(each.name != LOCK_NAME for each in path.iterdir()):
            _check_replaceable(path, force=force)
        parent = next(p for p in [path, *path.absolute().parents] if p.exists())
        probe = parent / ".diffgen-write-probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(f"The output folder {path} cannot be made ({error.strerror}); name another with -o.") from error


def _check_replaceable(path: Path, *, force: bool) -> None:
    if not force:
        raise UserError(
            f"The output folder {path} is not empty; name another with -o, or add --force to replace the run in it."
        )
    try:
        is_run = "schema_version" in _read_json(path / "manifest.json")
    except _UNREADABLE:
        is_run = False
    at_risk = [name for name in _OWN if (path / name).exists()]
    if at_risk and not is_run:
        raise UserError(
            f"The output folder {path} holds no run, so --force does not replace its {at_risk[0]}; "
            "name another with -o."
        )


def _read_json(file: Path) -> dict[str, Any]:
    value = json.loads(file.read_text(encoding="utf-8"))
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
        check_output(path, force=force)
        make_folder(path)
        _remove(path, _OWN)
        folder = cls(path, {"schema_version": SCHEMA_VERSION, **manifest, "parts": []})
        folder.save_manifest()
        make_folder(path / "triggers")
        write_text(path / "config.toml", tomli_w.dumps(dict(config)))
        return folder

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """An existing run.

        Raises:
            UserError: there is no run at that place, or a version of diffgen wrote it that is too new.
        """
        path = Path(path)
        file = path / "manifest.json"
        if not file.is_file():
            raise UserError(
                f"{path} is not a run folder (it has no manifest.json); give the folder that compare wrote."
            )
        try:
            manifest = _read_json(file)
            version = int(manifest["schema_version"])
            if version <= SCHEMA_VERSION and not isinstance(manifest["parts"], list):
                raise ValueError("its list of parts is no list")
        except _UNREADABLE as error:
            raise UserError(f"The manifest {file} cannot be read ({error}); the run folder is damaged.") from error
        if version > SCHEMA_VERSION:
            raise UserError(
                f"The run {path} was written by a newer diffgen (schema {version}); upgrade diffgen to read it."
            )
        return cls(path, manifest)

    def config(self) -> dict[str, Any]:
        """config.toml as nested values.

        Raises:
            UserError: missing or damaged.
        """
        if not (self.path / "config.toml").exists():
            raise UserError(
                f"The run {self.path} broke off before its settings were written (it has no config.toml); "
                "start it again with --force."
            )
        try:
            return tomllib.loads((self.path / "config.toml").read_text(encoding="utf-8"))
        except _UNREADABLE as error:
            raise UserError(
                f"The settings {self.path / 'config.toml'} cannot be read ({error}); the run folder is damaged."
            ) from error

    def save_manifest(self, **changes: Any) -> None:
        """Replace manifest.json, with ``changes`` applied; when that fails, nothing has changed here either."""
        changed = {**self.manifest, **changes}
        write_json(self.path / "manifest.json", changed)
        self.manifest = changed

    def tidy(self) -> None:
        """Remove half-written files, as a killed process leaves them; only while no other one writes to the folder."""
        remove_temporaries(self.path)

    def rewind(self, parts: int) -> None:
        """Go back to the first ``parts`` parts, and forget verdicts, figures and report, which speak of more."""
        _remove(self.path, _CONCLUSIONS)
        if parts < len(self.manifest["parts"]):
            self.save_manifest(parts=self.manifest["parts"][:parts])
        triggers = self.path / "triggers"
        make_folder(triggers)
        named = {part["file"] for part in self.manifest["parts"]}
        _remove(triggers, [file.name for file in triggers.glob("part-*.npz") if file.name not in named])

    # -- triggers ----------------------------------------------------------------------------------------------------

    def write_part(self, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Write the next part of the triggers, then name it in the manifest."""
        parts = self.manifest["parts"]
        name = f"part-{len(parts):05d}.npz"
        write_arrays(self.path / "triggers" / name, columns)
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
                file = file / part["file"]
                columns = read_arrays(file)
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
        """Where the answers of a remote model A or B are kept."""
        return self.path / _ANSWERS[role]

    def write_checkpoint(self, state: Mapping[str, Any]) -> None:
        """Put a new checkpoint of the search in front of the one before, which is kept."""
        newest, previous = (self.path / name for name in _CHECKPOINTS)
        write_arrays(newest, state, keep_as=previous)

    def has_checkpoint(self) -> bool:
        """Whether there is a newest checkpoint, damaged or not."""
        return (self.path / _CHECKPOINTS[0]).exists()

    def read_checkpoint(self) -> dict[str, Any] | None:
        """The newest state of the search, or None when there is none that can be read."""
        try:
            return read_arrays(self.path / _CHECKPOINTS[0])
        except _UNREADABLE:
            return None

    def drop_checkpoint(self) -> bool:
        """Put the checkpoint before in the place of the newest; False when there is none before."""
        newest, previous = (self.path / name for name in _CHECKPOINTS)
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
        write_arrays(self.path / f"{name}.npz", arrays, compress=True)

    def read_arrays(self, name: str) -> dict[str, Any]:
        """What :meth:`write_arrays` wrote.

        Raises:
            UserError: the run did not come to its end, or the file is damaged.
        """
        file = self.path / f"{name}.npz"
        if not file.is_file():
            raise UserError(
                f"The run {self.path} did not come to its end (it has no {file.name}); resume it with --resume."
            )
        try:
            return read_arrays(file)
        except _UNREADABLE as error:
            raise UserError(f"The file {file} cannot be read ({error}); the run folder is damaged.") from error

    def has_arrays(self, name: str) -> bool:
        """Whether :meth:`write_arrays` wrote these."""
        return (self.path / f"{name}.npz").is_file()

    def results(self) -> dict[str, Any]:
        """results.json.

        Raises:
            UserError: the run did not come to its end, or the file is damaged.
        """
        file = self.path / "results.json"
        if not file.is_file():
            raise UserError(
                f"The run {self.path} did not come to its end (it has no results.json); resume it with --resume."
            )
        try:
            return _read_json(file)
        except _UNREADABLE as error:
            raise UserError(f"The figures {file} cannot be read ({error}); the run folder is damaged.") from error


def _remove(folder: Path, names: Iterable[str]) -> None:
    try:
        for name in names:
            old = folder / name
            if old.is_dir() and not old.is_symlink():
                shutil.rmtree(old)
            else:
                old.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"The folder {folder} cannot be changed ({error.strerror}); see who owns it.") from error


def _kinds(columns: Mapping[str, Any]) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """Name -> type and shape of one row."""
    return {name: (np.asarray(column).dtype, np.shape(column)[1:]) for name, column in columns.items()}
