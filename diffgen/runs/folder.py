"""A run folder: where everything about one run is kept.

::

    config.toml        every setting, enough to repeat the run
    manifest.json      versions, file hashes, seeds, device, batch size, the parts written so far
    triggers/          part-00000.npz, ...: all triggers, never changed once the manifest names them
    checkpoint.npz     state of the search after a whole generation
    verdicts.npz       filter scores, reason of rejection, cell and confirmation of every trigger
    report.npz         arrays of the report: real disagreements, held-out scores, generator samples
    results.json       the figures
    report.html summary.md
    images/            the pictures of the report
"""

from __future__ import annotations

import json
import shutil
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from diffgen.errors import UserError
from diffgen.runs.files import read_arrays, write_arrays, write_json, write_text

SCHEMA_VERSION = 1
_OWN = (
    "config.toml",
    "manifest.json",
    "triggers",
    "checkpoint.npz",
    "verdicts.npz",
    "report.npz",
    "results.json",
    "report.html",
    "summary.md",
    "images",
)
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)


def check_output(path: Path, *, force: bool) -> None:
    """Say before anything is computed that a folder cannot take a new run.

    Raises:
        UserError: it is a file, it is not empty and ``force`` is not set, or no folder can be made there.
    """
    if path.exists() and not path.is_dir():
        raise UserError(f"The output {path} is a file; name a folder with -o.")
    if path.is_dir() and any(path.iterdir()) and not force:
        raise UserError(
            f"The output folder {path} is not empty; name another with -o, or add --force to replace the run in it."
        )
    parent = next(p for p in [path, *path.absolute().parents] if p.exists())
    probe = parent / ".diffgen-write-probe"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(f"The output folder {path} cannot be made ({error.strerror}); name another with -o.") from error


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
        path.mkdir(parents=True, exist_ok=True)
        for name in _OWN:
            old = path / name
            if old.is_dir() and not old.is_symlink():
                shutil.rmtree(old)
            else:
                old.unlink(missing_ok=True)
        (path / "triggers").mkdir()
        folder = cls(path, {"schema_version": SCHEMA_VERSION, **manifest, "parts": []})
        write_text(path / "config.toml", tomli_w.dumps(dict(config)))
        folder.save_manifest()
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
            manifest = json.loads(file.read_text(encoding="utf-8"))
            version = manifest["schema_version"]
        except _UNREADABLE as error:
            raise UserError(f"The manifest {file} cannot be read ({error}); the run folder is damaged.") from error
        if version > SCHEMA_VERSION:
            raise UserError(
                f"The run {path} was written by a newer diffgen (schema {version}); upgrade diffgen to read it."
            )
        return cls(path, manifest)

    def config(self) -> dict[str, Any]:
        """config.toml as nested values."""
        try:
            return tomllib.loads((self.path / "config.toml").read_text(encoding="utf-8"))
        except _UNREADABLE as error:
            raise UserError(
                f"The settings {self.path / 'config.toml'} cannot be read ({error}); the run folder is damaged."
            ) from error

    def save_manifest(self, **changes: Any) -> None:
        """Replace manifest.json, with ``changes`` applied."""
        self.manifest.update(changes)
        write_json(self.path / "manifest.json", self.manifest)

    # -- triggers ----------------------------------------------------------------------------------------------------

    def write_part(self, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Write the next part of the triggers, then name it in the manifest."""
        name = f"part-{len(self.manifest['parts']):05d}.npz"
        write_arrays(self.path / "triggers" / name, columns)
        self.manifest["parts"].append({"file": name, "rows": len(columns["query"])})
        self.save_manifest()

    def read_parts(self) -> dict[str, np.ndarray[Any, Any]]:
        """All triggers: every column, concatenated; empty when there are none.

        Raises:
            UserError: a part is missing or truncated.
        """
        parts: list[dict[str, Any]] = []
        for part in self.manifest["parts"]:
            file = self.path / "triggers" / part["file"]
            try:
                columns = read_arrays(file)
                if any(len(column) != part["rows"] for column in columns.values()):
                    raise ValueError("its columns differ in length")
            except _UNREADABLE as error:
                raise UserError(f"The triggers {file} cannot be read ({error}); the run folder is damaged.") from error
            parts.append(columns)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}

    # -- everything else ---------------------------------------------------------------------------------------------

    def write_checkpoint(self, state: Mapping[str, Any]) -> None:
        """Replace the checkpoint of the search."""
        write_arrays(self.path / "checkpoint.npz", state)

    def read_checkpoint(self) -> dict[str, Any] | None:
        """The state of the search, or None when there is none that can be read."""
        try:
            return read_arrays(self.path / "checkpoint.npz")
        except _UNREADABLE:
            return None

    def write_arrays(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Write ``verdicts`` or ``report`` arrays."""
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
            values: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        except _UNREADABLE as error:
            raise UserError(f"The figures {file} cannot be read ({error}); the run folder is damaged.") from error
        return values
