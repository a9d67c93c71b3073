"""What is worth keeping between runs: trained GANs and cells, each under a key made of everything it was made from.

It is kept below a size: what was used least recently is removed first, and nothing that is in use.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock, Timeout

from diffgen.errors import UserError
from diffgen.runs.opening import read_text

ENVIRONMENT = "DIFFGEN_CACHE"
# the folders in it: answers of models to large image sets, cells of data sets, published data sets that were fetched,
# networks of the filters, trained GANs, large image sets decoded, networks of other sources of images; `diffgen
# doctor` counts and clears these alone
KINDS = ("answers", "cells", "datasets", "filters", "gan", "images", "sources")
TAG = "CACHEDIR.TAG"
_SIGNATURE = "Signature: 8a477f597d28d172789f06886806bc55"
# a key and an ending, half-written files, and what a study keeps for each of its trials
_KEYED = re.compile(r"\.?[0-9a-f]{32}\.[\w.]+(/[0-9a-f]+-\d+/(\.?gan\.[\w.]+|lock))?")
_PUBLISHED = re.compile(
    r"(\w*MNIST/raw/\.?[\w.-]+(-ubyte|\.gz|\.zip)|\.?cifar-100?-python\.tar\.gz|cifar-10-batches-py/[\w.]+"
    r"|cifar-100-python/[\w.~]+|(train|test|extra)_32x32\.mat|usps(\.t)?\.bz2)(\.\d+(\.[0-9a-f]+)?\.(tmp|part))?"
)
_KEY = re.compile(r"\.?([0-9a-f]{32})\.")
_LOCK = ".lock"
_NAMES = {kind: _PUBLISHED if kind == "datasets" else _KEYED for kind in KINDS}


def cache_folder() -> Path:
    """The user's cache folder for diffgen; the environment variable ``DIFFGEN_CACHE`` names another."""
    given = os.environ.get(ENVIRONMENT)
    return Path(given) if given else Path(platformdirs.user_cache_dir("diffgen", appauthor=False))


def cache_kind(kind: str) -> Path:
    """The cache's folder of one kind, made and marked as diffgen's. UserError if it cannot be made."""
    cache = cache_folder()
    folder = cache / kind
    try:
        # the mark that backup programs know too, see https://bford.info/cachedir/
        if not cache.exists() or not any(cache.iterdir()):
            cache.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError), (cache / TAG).open("x", encoding="ascii") as file:
                file.write(f"{_SIGNATURE}\n# This is diffgen's cache; 'diffgen doctor --clear-cache' empties it.\n")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"The cache folder {folder} cannot be made ({error.strerror}); name another in {ENVIRONMENT}."
        ) from error
    return folder


def foreign_in_cache(cache: Path) -> Path | None:
    """The first thing in a cache folder that diffgen did not make there, or None.

    Everything is known by its name; data sets have the names that their publishers gave them, so that a folder with
    them counts only where diffgen made the cache itself.
    """
    if not cache.is_dir():
        return None
    for each in sorted(cache.iterdir()):
        pattern = _NAMES.get(each.name)
        if each.name == TAG and each.is_file() and not each.is_symlink():
            continue
        if (
            pattern is None
            or each.is_symlink()
            or not each.is_dir()
            or (each.name == "datasets" and not _tagged(cache))
        ):
            return each
        for place, folders, names in os.walk(each):
            here = Path(place)
            links = [name for name in folders if (here / name).is_symlink()]
            for name in sorted((*names, *links)):
                if not pattern.fullmatch((here / name).relative_to(each).as_posix()):
                    return here / name
    return None


def _tagged(cache: Path) -> bool:
    try:
        return read_text(cache / TAG, longest=4096, links=False).startswith(_SIGNATURE)
    except (OSError, ValueError):
        return False


def cache_file(kind: str, made_from: Any) -> Path:
    """The file that holds ``kind`` made from ``made_from`` (JSON values); its folder exists, the file may not.

    Raises:
        UserError: the cache folder cannot be made.
    """
    key = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:32]
    return cache_kind(kind) / f"{key}.safetensors"


# -- its size ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """What belongs together in the cache: the files of one key, or one published data set.

    Attributes:
        kind: see :data:`diffgen.runs.cache.KINDS`.
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
    """Remove what was used least recently until ``limit`` bytes are left. UserError if something cannot be removed."""
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
    """Whether some process has a file mapped that it says so of (:mod:`diffgen.data.decoded`).

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
