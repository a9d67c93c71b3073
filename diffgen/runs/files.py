"""Files that appear whole or not at all: written under a temporary name, then renamed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from diffgen.errors import RunError

_JSON_MEMBER = "json"


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path`` and rename it to ``path``.

    Raises:
        RunError: the disk is full or the folder cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunError(
            f"The file {path} cannot be written ({error.strerror or error}); free some space and resume."
        ) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file as UTF-8."""
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, readable by people."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_arrays(path: Path, arrays: Mapping[str, Any], *, compress: bool = False) -> None:
    """Write an .npz of arrays; values that are no arrays go in together as JSON, never as a pickle."""
    plain = {name: value for name, value in arrays.items() if not isinstance(value, np.ndarray)}
    members: dict[str, Any] = {name: value for name, value in arrays.items() if isinstance(value, np.ndarray)}
    if plain:
        members[_JSON_MEMBER] = np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8)

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            save = np.savez_compressed if compress else np.savez
            save(file, allow_pickle=False, **members)

    write_whole(path, write)


def read_arrays(path: Path) -> dict[str, Any]:
    """What :func:`write_arrays` wrote.

    Raises:
        OSError, ValueError, KeyError, zipfile.BadZipFile: missing, truncated or another kind of file.
    """
    with np.load(path, allow_pickle=False) as stored:
        values: dict[str, Any] = {name: stored[name] for name in stored.files}
    if _JSON_MEMBER in values:
        values.update(json.loads(values.pop(_JSON_MEMBER).tobytes()))
    return values
