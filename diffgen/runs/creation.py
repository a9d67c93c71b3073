"""Which files a run folder holds, where a new one may be made, and how an old one is removed."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from diffgen.config import MAX_MODELS, roles
from diffgen.errors import RunError, UserError
from diffgen.runs.lock import LOCK_NAME, RunLock
from diffgen.runs.opening import inside, read_text
from diffgen.runs.outputs import check_writable, resolved_output

_SELECTION = ("selector.onnx", "selection.npz")
# what is made of the triggers once the search is over
CONCLUSIONS = (
    "verdicts.npz",
    "report.npz",
    "operators.npz",
    "outcomes.npz",
    "shrunk.npz",
    "check.npz",
    *_SELECTION,
    "results.json",
    "report.html",
    "summary.md",
    "junit.xml",
    "images",
)
# as many as a comparison takes at most; see diffgen.config
ROLES = roles(MAX_MODELS)
ANSWERS = {role: f"answers-{role}.sqlite" for role in ROLES}
# the manifest last: it is what tells a run that --force may replace, also when the replacing was cut short
OWN = (
    "labels.npz",
    "rank.npz",
    "probe.npz",
    "cause.npz",
    "config.toml",
    "triggers",
    "checkpoint.npz",
    "checkpoint.previous.npz",
    *(name + ending for name in ANSWERS.values() for ending in ("", "-wal", "-shm")),  # as SQLite names them
    *CONCLUSIONS,
    "manifest.json",
)
# what lies in the folders of a run: of other names nothing is read and nothing removed there
FOLDERS = {
    "triggers": re.compile(r"part-\d{5,9}\.npz"),
    "images": re.compile(r"trigger-\d{6,12}(-[A-Z]\d{1,9}){2,26}\.png"),
}
PART = FOLDERS["triggers"]
UNREADABLE = (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError)


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
        manifest = read_json(path, "manifest.json")
        # a web page and many other things have a manifest.json too; every version wrote these three
        is_run = isinstance(manifest["schema_version"], int) and isinstance(manifest["parts"], list)
    except (*UNREADABLE, UserError):
        is_run = False
    at_risk = [name for name in OWN if os.path.lexists(path / name)]
    if at_risk and not is_run:
        raise UserError(
            f"The output folder {path} holds no run, so --force does not replace its {at_risk[0]}; "
            "name another with -o."
        )


def remove_verdict(output: Path) -> None:
    """Remove verdict and report of a check that another is to replace, so that they do not stand for one never begun.

    What the search found stays until the new run is begun, and so does all of a run that is no check.

    Raises:
        UserError: the folder holds no run, or another process works in it.
    """
    path = check_output(output, force=True)
    if (path / "manifest.json").is_file() and "check" in read_json(path, "manifest.json"):
        with RunLock(path):
            remove(path, CONCLUSIONS)


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """A file of names and values in a run folder.

    Raises:
        one of ``UNREADABLE``: it is missing, damaged or holds something else.
    """
    value = json.loads(read_text(inside(folder, name), links=False))
    if not isinstance(value, dict):
        raise ValueError("it holds no table of names and values")
    return value


def remove(folder: Path, names: Iterable[str]) -> None:
    """Remove files of a run, and of its folders what a run makes there; whatever else is in them stays."""
    for name in names:
        place = folder / name
        pattern = FOLDERS.get(name)
        if pattern is None or place.is_symlink() or not place.is_dir():
            remove_named(folder, [name])
            continue
        remove_named(place, [each.name for each in own_files(place, pattern)])
        try:
            if not any(place.iterdir()):
                os.rmdir(place)
        except OSError as error:
            raise _unchangeable(folder, error) from error


def own_files(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    """The files of a folder whose names a run gives."""
    try:
        return [each for each in folder.iterdir() if pattern.fullmatch(each.name)]
    except OSError as error:
        raise _unchangeable(folder, error) from error


def remove_named(folder: Path, names: Iterable[str]) -> None:
    """Remove files of a folder.

    Raises:
        UserError: one is a folder.
        RunError: one cannot be removed.
    """
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
