"""Puts files into an object store, or any other place that fsspec knows by a URL.

A store renames nothing and knows no folders. So a mark goes first, which lists what belongs to what is sent; the files
follow, and what an earlier sending left is removed last. Whatever the mark does not list is never touched.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from diffgen.errors import RunError, UserError
from diffgen.events import Progress
from diffgen.runs.outputs import MARKER

_LONGEST_MARK = 2**30  # bytes


def is_url(place: object) -> bool:
    """Whether a place is one of a store, such as ``s3://bucket/finds``, and no folder of this machine."""
    return isinstance(place, str) and "://" in place


@dataclass(frozen=True)
class StoreFolder:
    """A place in a store that may be filled, from :func:`store_folder`.

    Attributes:
        kind: what is to be in it, such as "dataset".
        replaces: files of an earlier one that is replaced, as paths below it.
    """

    url: str
    kind: str
    replaces: tuple[str, ...] = ()


def store_folder(url: str, *, kind: str, force: bool, option: str) -> StoreFolder:
    """A place that nothing is in, or, with ``force``, only what carries the mark of that kind.

    Raises:
        UserError: the store does not answer, or something is there that may not be replaced.
    """
    with _of(url, UserError, f"see that it answers, and that {option} is right"):
        store, place = _opened(url)
        there = _below(store, place)
        if not there:
            return StoreFolder(url, kind)
        if not force:
            raise UserError(f"There is something in {url} already; name another place with {option}, or add --force.")
        listed = _listed(store, place, kind) if MARKER in there else None
        if listed is None:
            raise UserError(
                f"What is in {url} carries no mark of a {kind}, so --force does not replace it; name another place "
                f"with {option}, or remove it yourself."
            )
        foreign = next((name for name in there if name not in listed and name != MARKER), None)
        if foreign is not None:
            raise UserError(
                f"In {url} there is also {foreign}, which diffgen did not put there, so --force does not replace it; "
                f"move that away, or name another place with {option}."
            )
    return StoreFolder(url, kind, tuple(name for name in there if name != MARKER))


def send(source: Path, names: Sequence[str], target: StoreFolder, progress: Progress) -> None:
    """Put files of a folder into a store.

    Args:
        names: of the files, as paths below it.
        target: where to.

    Raises:
        RunError: the store fails; what was sent until then carries the mark, so that --force replaces it.
    """
    again = "what was sent carries diffgen's mark, so that the same command with --force sends all of it again"
    with _of(target.url, RunError, again), progress.stage("Sending", total=len(names)) as task:
        store, place = _opened(target.url)
        if hasattr(store, "auto_mkdir"):  # folders that are folders have to be made
            store.auto_mkdir = True
        _mark(store, place, target.kind, sorted({*names, *target.replaces}))
        for name in names:
            store.put_file(str(source / name), f"{place}/{name}")
            task.advance()
        for name in sorted({*target.replaces} - {*names}):
            store.rm_file(f"{place}/{name}")
        _mark(store, place, target.kind, sorted(names))


def _opened(url: str) -> tuple[Any, str]:
    """The file system that a URL belongs to, and the path in it."""
    try:
        core = import_module("fsspec.core")
    except ImportError as error:
        raise UserError(f"The place {url} needs fsspec, which is not installed; install 'diffgen[storage]'.") from error
    store, place = core.url_to_fs(url)
    store.invalidate_cache()
    return store, place.rstrip("/")


def _below(store: Any, place: str) -> list[str]:
    """All files below a place, as paths below it."""
    beginning = store._strip_protocol(place).rstrip("/") + "/"
    return sorted(each.removeprefix(beginning) for each in store.find(place) if each.startswith(beginning))


def _listed(store: Any, place: str, kind: str) -> set[str] | None:
    """The files that a mark lists; None: it is no mark of that kind."""
    try:
        with store.open(f"{place}/{MARKER}", "rb") as file:
            about = json.loads(file.read(_LONGEST_MARK))
        return {str(each) for each in about["files"]} if about["kind"] == kind else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _mark(store: Any, place: str, kind: str, names: list[str]) -> None:
    about = {"kind": kind, "identity": secrets.token_hex(16), "files": names}
    with store.open(f"{place}/{MARKER}", "wb") as file:
        file.write(json.dumps(about, indent=1).encode())


@contextmanager
def _of(url: str, kind: type[UserError] | type[RunError], then: str) -> Iterator[None]:
    """While the block runs, what a store raises becomes a sentence."""
    try:
        yield
    except (UserError, RunError):
        raise
    except ImportError as error:
        raise UserError(f"The place {url} needs a package that is not installed ({error}).") from error
    # OSError, ValueError for a protocol that is not known, errors of botocore or aiohttp: every store has its own
    except Exception as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise kind(f"The place {url} cannot be used ({said}); {then}.") from error
