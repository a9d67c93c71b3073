"""Keeps the cache below a size: what was used least recently is removed first, and nothing that is in use."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from diffgen.errors import UserError
from diffgen.runs.cache import KINDS

_KEY = re.compile(r"\.?([0-9a-f]{32})\.")
_LOCK = ".lock"


@dataclass(frozen=True)
class Entry:
    """What belongs together in the cache: the files of one key, or one published data set.

    Attributes:
        kind: see :data:`diffgen.runs.cache.KINDS`.
        paths: files and folders.
        size: in bytes.
        used: when it was written or read last, in seconds since 1970.
    """

    kind: str
    paths: tuple[Path, ...]
    size: int
    used: float


@dataclass(frozen=True)
class Trimmed:
    """What was done to the cache.

    Attributes:
        freed: bytes by kind.
        left: bytes that are still there.
        in_use: bytes of what had to stay because some process works with it.
    """

    freed: dict[str, int]
    left: int
    in_use: int


def trim(cache: Path, limit: int) -> Trimmed:
    """Remove what was used least recently until no more than ``limit`` bytes are left.

    Raises:
        UserError: something cannot be removed.
    """
    entries = sorted(_entries(cache), key=lambda each: each.used)
    left, freed, in_use = sum(each.size for each in entries), dict[str, int](), 0
    for entry in entries:
        if left <= limit:
            break
        try:
            removed = _remove(entry)
        except OSError as error:
            raise UserError(
                f"The cache {cache} cannot be made smaller ({error.strerror}); see who owns {error.filename}."
            ) from error
        if removed:
            left -= entry.size
            freed[entry.kind] = freed.get(entry.kind, 0) + entry.size
        else:
            in_use += entry.size
    return Trimmed(freed, left, in_use)


def is_mapped(path: Path) -> bool:
    """Whether some process has a file mapped that it says so of (:mod:`diffgen.data.mapped`).

    Windows says nothing, and refuses to remove such a file.
    """
    if sys.platform == "win32":
        return False
    import fcntl

    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # a file system without locks
            return False
    return False


def _entries(cache: Path) -> Iterator[Entry]:
    for kind in KINDS:
        folder = cache / kind
        if not folder.is_dir() or folder.is_symlink():
            continue
        together: dict[str, list[Path]] = {}
        for path in folder.iterdir():
            match = _KEY.match(path.name)
            together.setdefault(match[1] if match else path.name, []).append(path)
        for paths in together.values():
            files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else (path,))]
            found = [file.lstat() for file in files if file.is_file()]
            if any(each.st_size for each in found):  # else a lock that nobody holds
                used = max(max(each.st_mtime, each.st_atime) for each in found)
                yield Entry(kind, tuple(paths), sum(each.st_size for each in found), used)


def _remove(entry: Entry) -> bool:
    """Whether it is gone; False: it is in use."""
    lock = next((path for path in entry.paths if path.suffix == _LOCK), None)
    with contextlib.ExitStack() as held:
        if lock is not None:
            try:
                held.enter_context(FileLock(lock).acquire(timeout=0))
            except Timeout:
                return False  # it is being made
        if any(path.suffix == ".npy" and is_mapped(path) for path in entry.paths):
            return False
        for path in entry.paths:
            if path.is_dir():
                shutil.rmtree(path)
            elif path != lock:
                try:
                    path.unlink(missing_ok=True)
                except PermissionError:
                    if sys.platform == "win32":
                        return False  # mapped
                    raise
    return True
