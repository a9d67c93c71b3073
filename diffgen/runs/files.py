"""Files that appear whole or not at all: written under a temporary name, then renamed.

They are also brought to the disk before they are renamed (fsync of the file, then of its folder), so that a power cut
leaves the old file or the new one. That costs about 0.4 ms a file on a virtual disk with a write cache.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from diffgen.errors import RunError

_JSON_MEMBER = "json"
_TEMPORARY = re.compile(r"\..+\.\d+\.tmp")


def write_whole(
    path: Path, write: Callable[[Path], object], *, keep_as: Path | None = None, durable: bool = True
) -> None:
    """Let ``write`` fill a temporary file beside ``path`` and rename it to ``path``.

    Args:
        path: the file to make or to replace.
        write: is handed the temporary path.
        keep_as: a name beside ``path`` under which the file that is replaced lives on.
        durable: wait until the disk has it; not worth it for what can be drawn again.

    Raises:
        RunError: the disk is full or the folder cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        if durable:
            _sync(temporary)
        if keep_as is not None and path.exists():
            os.replace(path, keep_as)
        os.replace(temporary, path)
        if durable and os.name == "posix":  # elsewhere a folder cannot be opened
            _sync(path.parent)
    except (OSError, SafetensorError) as error:  # safetensors wraps the errors of the disk in its own
        reason = getattr(error, "strerror", None) or error
        raise RunError(f"The file {path} cannot be written ({reason}); free some space and resume.") from error
    finally:
        # after the renaming there is none
        with contextlib.suppress(OSError):
            temporary.unlink()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it.

    Raises:
        RunError: the disk is full or the folder above cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"The folder {path} cannot be made ({error.strerror}); free some space and resume.") from error


def remove_temporaries(folder: Path) -> int:
    """Remove what killed processes left half-written in a folder and those below it; returns how many files.

    Only for folders that no other process writes to.
    """
    left = [file for file in folder.rglob(".*.tmp") if _TEMPORARY.fullmatch(file.name)]
    for file in left:
        file.unlink(missing_ok=True)
    return len(left)


def write_text(path: Path, text: str) -> None:
    """Write a text file as UTF-8."""
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, readable by people."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_arrays(path: Path, arrays: Mapping[str, Any], *, compress: bool = False, keep_as: Path | None = None) -> None:
    """Write an .npz of arrays; values that are no arrays go in together as JSON, never as a pickle.

    ``keep_as``: see :func:`write_whole`.

    Raises:
        ValueError: an array holds Python objects.
        RunError: the disk is full or the folder cannot be written.
    """
    plain = {name: value for name, value in arrays.items() if not isinstance(value, np.ndarray)}
    members: dict[str, Any] = {name: value for name, value in arrays.items() if isinstance(value, np.ndarray)}
    for name, array in members.items():
        if array.dtype.hasobject:
            raise ValueError(f"the array {name!r} holds Python objects, which only a pickle could keep")
    if plain:
        members[_JSON_MEMBER] = np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8)

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            save = np.savez_compressed if compress else np.savez
            save(file, **members)

    write_whole(path, write, keep_as=keep_as)


def read_arrays(path: Path) -> dict[str, Any]:
    """What :func:`write_arrays` wrote.

    Raises:
        OSError: missing, or the disk fails.
        ValueError: truncated, damaged or another kind of file.
    """
    try:
        if zipfile.is_zipfile(path):
            # numpy reads as much as a member's header says; only reading all of it compares the checksum
            with zipfile.ZipFile(path) as archive:
                if (damaged := archive.testzip()) is not None:
                    raise ValueError(f"the checksum of {damaged} is wrong")
        with np.load(path, allow_pickle=False) as stored:
            values: dict[str, Any] = {name: stored[name] for name in stored.files}
        if _JSON_MEMBER in values:
            values.update(json.loads(values.pop(_JSON_MEMBER).tobytes()))
    except OSError:
        raise
    except Exception as error:
        # damage shows itself as zlib.error, NotImplementedError, RuntimeError, ... after where it hit the zip
        raise ValueError(str(error) or type(error).__name__) from error
    return values
