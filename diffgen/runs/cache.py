"""What is worth keeping between runs: trained GANs and cells, each under a key made of everything it was made from."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import platformdirs

from diffgen.errors import UserError
from diffgen.types import Progress

_Made = TypeVar("_Made")

ENVIRONMENT = "DIFFGEN_CACHE"
# the folders in it: trained GANs, networks of the filters, cells of data sets, published data sets that were fetched;
# `diffgen doctor` counts and clears these and no others
KINDS = ("cells", "datasets", "filters", "gan")


def cache_folder() -> Path:
    """The user's cache folder for diffgen; the environment variable ``DIFFGEN_CACHE`` names another."""
    given = os.environ.get(ENVIRONMENT)
    return Path(given) if given else Path(platformdirs.user_cache_dir("diffgen", appauthor=False))


def cache_file(kind: str, made_from: Any, *, suffix: str = ".safetensors") -> Path:
    """The file that holds ``kind`` made from ``made_from`` (JSON values); its folder exists, the file may not.

    Raises:
        UserError: the cache folder cannot be made.
    """
    key = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:32]
    folder = cache_folder() / kind
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"The cache folder {folder} cannot be made ({error.strerror}); name another in {ENVIRONMENT}."
        ) from error
    return folder / f"{key}{suffix}"


def cached(path: Path, load: Callable[[Path], _Made], make: Callable[[], _Made], progress: Progress) -> _Made:
    """What a file of the cache holds; where it is missing or damaged, what is made now.

    Args:
        path: from :func:`cache_file`.
        load: reads it; a UserError says that it is damaged.
        make: makes it, and writes the file.
        progress: is told of damage.
    """
    if path.is_file():
        try:
            return load(path)
        except UserError as error:
            progress.warn(f"{error} It is made anew now.")
    return make()
