"""Files that appear whole or not at all: written under a temporary name, then renamed.

They are also brought to the disk before they are renamed (fsync of the file, then of its folder), so that a power cut
leaves the old file or the new one. That costs about 0.4 ms a file on a virtual disk with a write cache.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from diffgen.errors import RunError, UserError

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.\d+\.[0-9a-f]{16}\.tmp")


def write_whole(
    path: Path, write: Callable[[Path], object], *, keep_as: Path | None = None, durable: bool = True
) -> None:
    """Let ``write`` fill a temporary file beside ``path`` and rename it to ``path``.

    Args:
        path: the file to make or to replace.
        write: is handed the temporary path.
        keep_as: a name beside ``path`` under which the file that is replaced lives on.
        durable: wait until the disk has it; not worth it for what can be drawn again.

    The temporary file is made anew under a name that nobody can guess, so that no link leads elsewhere; what is
    replaced may be a symbolic link, which is then replaced itself.

    Raises:
        UserError: a device, a pipe or a socket has that name.
        RunError: the disk is full or the folder cannot be written.
    """
    _refuse_special(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}.tmp")
    try:
        _make_new(temporary)
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


def _refuse_special(path: Path) -> None:
    """What is renamed onto a device or a pipe takes its place, for the superuser also in /dev."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return  # the writing itself says what is wrong
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)):
        raise UserError(f"{path} is a device, a pipe or a socket and no file; name a file.")


def _make_new(path: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    os.close(os.open(path, flags, 0o666))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it.

    Raises:
        UserError: there is a file in its way.
        RunError: the disk is full or the folder above cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise UserError(f"The folder {path} cannot be made, since a file is in its way; name another.") from error
    except OSError as error:
        raise RunError(f"The folder {path} cannot be made ({error.strerror}); free some space and resume.") from error


def remove_temporaries(folder: Path, ours: re.Pattern[str]) -> None:
    """Remove what killed processes left half-written in a folder.

    Only for folders that no other process writes to.

    Args:
        folder: it is looked into, not into those below it.
        ours: the names of the files that are written there; temporary files of other ones stay.
    """
    for file in list(folder.iterdir()) if folder.is_dir() else ():
        match = _TEMPORARY.fullmatch(file.name)
        if match is not None and ours.fullmatch(match["name"]) and stat.S_ISREG(file.lstat().st_mode):
            file.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file as UTF-8."""
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def json_text(value: Any) -> str:
    """JSON as people can read it."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, readable by people."""
    write_text(path, json_text(value))
