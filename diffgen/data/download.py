"""Fetches published files once, and checks that they are the published ones."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from diffgen.errors import UserError
from diffgen.events import Progress

_SECONDS = 30.0  # that a server may keep silent
_CHUNK = 2**18
_MAX_BYTES = 2 * 2**30
_USER_AGENT = "diffgen"


def fetch(urls: Sequence[str], path: Path, md5: str, *, name: str, progress: Progress) -> None:
    """Make sure that a published file lies at its place; it appears there whole or not at all.

    Args:
        urls: places that have it, tried in turn.
        path: where it shall lie; its folder is made. A file that is there already is only checked.
        md5: its published checksum.
        name: what messages call the data set.
        progress: is told of every piece.

    Raises:
        UserError: no place has it, the network cannot be reached, or the file that is there is another one.
    """
    if path.exists():
        _check(path, md5, name)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"The cache folder {str(path.parent)!r} cannot be made ({error.strerror}); name another in DIFFGEN_CACHE."
        ) from error
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    reasons = []
    try:
        for url in urls:
            try:
                found = _download(url, temporary, path.name, progress)
            except (
                urllib.error.URLError,
                http.client.HTTPException,
                ConnectionError,
                TimeoutError,
                ValueError,
            ) as error:
                reasons.append(_in_words(error))
                continue
            if found == md5:
                os.replace(temporary, path)
                return
            reasons.append("what arrived is damaged or another file")
    except OSError as error:
        raise UserError(
            f"The file {str(path)!r} cannot be written ({error.strerror or error}); free some space."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    raise UserError(
        f"The data set {name!r} could not be fetched from {' or '.join(urls)} ({'; '.join(dict.fromkeys(reasons))}); "
        f"connect to the network, or put the file {path.name!r} into {str(path.parent)!r} by hand."
    )


def _download(url: str, path: Path, name: str, progress: Progress) -> str:
    """Write what a place has and return its checksum."""
    # Of the published checksums there is only the MD5. Nobody has made a second file for a given one, and the request
    # itself cannot be trusted: some of the places speak HTTP only.
    md5 = hashlib.md5(usedforsecurity=False)
    request = urllib.request.Request(url, headers={"User-Agent": _USER_AGENT})
    with (
        urllib.request.urlopen(request, timeout=_SECONDS) as response,
        path.open("wb") as file,
        progress.stage(f"Fetching {name}", total=response.length) as task,
    ):
        received = 0
        while piece := response.read(_CHUNK):
            received += len(piece)
            if received > _MAX_BYTES:
                raise ValueError(f"it sends more than {_MAX_BYTES // 2**30} GiB")
            md5.update(piece)
            file.write(piece)
            task.advance(len(piece))
    return md5.hexdigest()


def _check(path: Path, md5: str, name: str) -> None:
    found = hashlib.md5(usedforsecurity=False)
    try:
        with path.open("rb") as file:
            while piece := file.read(_CHUNK):
                found.update(piece)
    except OSError as error:
        raise UserError(f"The file {str(path)!r} cannot be read ({error.strerror}); check its permissions.") from error
    if found.hexdigest() != md5:
        raise UserError(
            f"The file {str(path)!r} is not the published one of {name!r} (its MD5 is {found.hexdigest()}, not {md5}); "
            "remove it, and it is fetched again."
        )


def _in_words(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    text = getattr(reason, "strerror", None) or str(reason) or type(error).__name__
    return str(text).partition("\n")[0].rstrip(". ").replace(". ", "; ")
