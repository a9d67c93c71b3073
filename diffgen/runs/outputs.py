"""What may be written where, one rule for all verbs.

An output is resolved before anything is computed. What is there already and is no regular file is never replaced, nor
is anything that diffgen did not make: a folder of ours carries the list of its files, and only those are ever removed.
A new folder is filled under another name and then renamed, which cannot remove anything that appeared meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from diffgen.errors import UserError
from diffgen.runs.opening import read_text

MARKER = ".diffgen-made-this.json"
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/[^/]")  # as pathlib writes one; a drive has one letter
_SECONDS_TO_HOLD = 10.0
_LONGEST_MARK = 2**30  # bytes; of a million pictures it has 50 million


def resolved_output(path: Path) -> Path:
    """Where an output is to be, before anything is made: ``new/..`` is the folder that ``new`` would lie in.

    Raises:
        UserError: it is no path, the address of a store, or its links lead round in a circle.
    """
    if not str(path).strip():
        raise UserError("The name of the output is empty; name another with -o.")
    if _ADDRESS.match(str(path)) and not Path(path.parts[0]).exists():
        raise UserError(
            f"The output {path} is the address of a store; name a folder with -o, and send the run there afterwards "
            "with diffgen export --to."
        )
    if "\0" in str(path):
        raise UserError(f"The output {str(path)!r} is no path; name another with -o.")
    try:
        return path.resolve() if ".." in path.parts else path
    except (OSError, RuntimeError) as error:
        raise UserError(f"The output {path} cannot be found ({error}); name another with -o.") from error


def check_writable(path: Path) -> None:
    """See that something can be made at a path, without making it, or raise OSError."""
    parent = next(each for each in [path, *path.absolute().parents] if each.exists())
    probe = parent / f".diffgen-{secrets.token_hex(8)}.probe"
    os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600))
    probe.unlink()


# -- files -----------------------------------------------------------------------------------------------------------


def output_file(path: Path, *, force: bool, parents: bool = False) -> Path:
    """A file that may be written, and replaced if ``force`` is set; where a link leads, that is it.

    Args:
        path: as the user gave it.
        force: whether a regular file that is there may be replaced.
        parents: whether its folder is made later, if it does not exist.

    Raises:
        UserError: it is a folder, a device, a pipe or a socket; it exists and ``force`` is not set; or its folder does
            not exist or cannot be written.
    """
    path = resolved_output(path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        mode = None
    except OSError as error:
        raise UserError(f"The file {path} cannot be written ({error.strerror}); name another with -o.") from error
    if mode is None and path.is_symlink():
        raise UserError(f"The output {path} is a link to nothing; remove it, or name another with -o.")
    if mode is not None and stat.S_ISDIR(mode):
        raise UserError(f"The output {path} is a folder; name a file with -o.")
    if mode is not None and not stat.S_ISREG(mode):
        raise UserError(f"The output {path} is a device, a pipe or a socket and no file; name a file with -o.")
    if mode is not None and not force:
        raise UserError(f"The file {path} exists; name another with -o, or add --force to replace it.")
    target = path.resolve() if path.is_symlink() else path
    if parents and not target.parent.exists():
        return target
    if not target.parent.is_dir():
        raise UserError(f"The folder {target.parent} does not exist; make it, or name another file with -o.")
    if not os.access(target.parent, os.W_OK):
        raise UserError(f"The folder {target.parent} cannot be written; name a file elsewhere with -o.")
    return target


# -- folders ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OutputFolder:
    """A folder that may be made, from :func:`output_folder`.

    Attributes:
        kind: what is to be in it, such as "export".
        replaces: what identifies the folder of that kind that is there and may be replaced, or None.
    """

    path: Path
    kind: str
    option: str
    replaces: str | None = None


def output_folder(path: Path, *, kind: str, force: bool = False, option: str = "-o", hint: str = "") -> OutputFolder:
    """A folder that may be made, or replaced if ``force`` is set and all that is in it was made as such a folder.

    Args:
        path: as the user gave it; an empty folder may be there.
        force: whether an earlier one of the kind may be replaced.
        option: what names another, for messages.
        hint: what else the user may do, for messages, such as ", or add --force to replace an export".

    Raises:
        UserError: it cannot be made, or something is there that may not be replaced.
    """
    path = resolved_output(path)
    try:
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            raise UserError(f"The output {path} is not a folder; name one with {option}.")
        if not path.is_dir() or not any(path.iterdir()):
            check_writable(path.absolute().parent)
            return OutputFolder(path, kind, option)
        if not force:
            raise UserError(f"The output folder {path} is not empty; name another folder with {option}{hint}.")
        mark = _mark(path, kind)
        if mark is None:
            raise UserError(
                f"The output folder {path} holds no {kind} that carries diffgen's mark, so --force does not replace "
                f"it; name another with {option}, or remove it yourself."
            )
        foreign = _foreign(path, mark)
        if foreign is not None:
            raise UserError(
                f"The output folder {path} also holds {foreign}, which diffgen did not make, so --force does not "
                f"replace it; move that away, or name another folder with {option}."
            )
    except OSError as error:
        raise UserError(
            f"The folder {path} cannot be written ({error.strerror}); name another with {option}."
        ) from error
    return OutputFolder(path, kind, option, mark.identity)


@contextmanager
def filled(output: OutputFolder) -> Iterator[Path]:
    """A new folder to fill, which becomes ``output`` when the block ends well and vanishes when it does not.

    Raises:
        UserError: something appeared at that place meanwhile, and stays; or the folder cannot be written.
    """
    target = output.path
    held: int | None = None
    try:
        target.absolute().parent.mkdir(parents=True, exist_ok=True)
        name = re.compile(rf"\.{re.escape(target.absolute().name)}\.[0-9a-f]{{16}}\.unfinished")
        remove_abandoned(target.absolute().parent, name)
        unfinished = _beside(target, "unfinished")
        unfinished.mkdir()
        held = hold(unfinished)
    except OSError as error:
        raise UserError(
            f"The folder {target} cannot be written ({error.strerror}); name another with {output.option}."
        ) from error
    try:
        yield unfinished
        made = sorted(name for name, _, _ in _all_in(unfinished))
        about = {"kind": output.kind, "identity": secrets.token_hex(16), "files": made}
        with (unfinished / MARKER).open("x", encoding="utf-8") as file:
            json.dump(about, file, indent=1)
        _place(unfinished, output)
    except OSError as error:
        raise UserError(
            f"The folder {target} cannot be written ({error.strerror}); name another with {output.option}."
        ) from error
    finally:
        # after the renaming there is none; all that is in it was made here
        if unfinished.is_dir():
            _remove_listed(unfinished, {name for name, _, _ in _all_in(unfinished)})
        if held is not None:
            os.close(held)


def hold(folder: Path) -> int | None:
    """Lock a folder until the handle is closed or its process ends, however; None where another process holds it."""
    if sys.platform == "win32":
        return None
    import fcntl

    handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # also a file system without locks
        os.close(handle)
        return None
    return handle


def remove_abandoned(place: Path, name: re.Pattern[str]) -> None:
    """Remove the folders of such names that killed processes left in a place: those that nobody holds."""
    for folder in place.iterdir():
        if not name.fullmatch(folder.name) or folder.is_symlink():
            continue
        # one that was made just now may not be held yet
        if time.time() - folder.stat().st_mtime > _SECONDS_TO_HOLD and (handle := hold(folder)) is not None:
            _remove_listed(folder, {each for each, _, _ in _all_in(folder)})
            os.close(handle)


def write_new(path: Path, data: bytes) -> None:
    """Write a file into a folder that :func:`filled` makes.

    Nobody sees that folder before it is whole, so that the file is neither renamed nor brought to the disk.

    Raises:
        OSError: something has that name, or the disk is full.
    """
    with path.open("xb") as file:  # follows no link
        file.write(data)


def _place(unfinished: Path, output: OutputFolder) -> None:
    """Rename a filled folder to its place. Renaming removes an empty folder at most, whoever made one there since."""
    target = output.path
    if output.replaces is None:
        try:
            if os.name != "posix" and target.is_dir():
                target.rmdir()  # there a folder is not renamed onto an empty one
            os.rename(unfinished, target)
        except OSError as error:
            if os.path.lexists(target):
                raise _appeared(output) from error
            raise
        return
    old = _beside(target, "replaced")
    try:
        os.rename(target, old)
    except FileNotFoundError as error:
        raise _appeared(output) from error
    mark = _mark(old, output.kind)
    if mark is None or mark.identity != output.replaces or _foreign(old, mark) is not None:
        os.rename(old, target)
        raise _appeared(output)
    try:
        os.rename(unfinished, target)
    except OSError as error:
        if not os.path.lexists(target):
            os.rename(old, target)
            raise
        raise UserError(
            f"The folder {target} was made by somebody else meanwhile and stays; what was there before is {old} now."
        ) from error
    _remove_listed(old, {*mark.files, MARKER})


def _appeared(output: OutputFolder) -> UserError:
    return UserError(
        f"The folder {output.path} was made or changed by somebody else meanwhile; name another with {output.option}."
    )


@dataclass(frozen=True)
class _Mark:
    identity: str
    files: frozenset[str]


def _mark(folder: Path, kind: str) -> _Mark | None:
    """What a folder says of itself; None for one that was not made as a folder of that kind."""
    try:
        about = json.loads(read_text(folder / MARKER, longest=_LONGEST_MARK, links=False))
        identity, files = about["identity"], about["files"]
        if about["kind"] != kind or not isinstance(identity, str) or not isinstance(files, list):
            return None
        return _Mark(identity, frozenset(each for each in files if isinstance(each, str)))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _foreign(folder: Path, mark: _Mark) -> str | None:
    """The first thing in a folder that its mark does not list, as a path below it."""
    return next((name for name, _, _ in _all_in(folder) if name not in mark.files and name != MARKER), None)


def _all_in(folder: Path) -> Iterator[tuple[str, Path, bool]]:
    """Everything below a folder, the deepest first: its path with slashes, its place, and whether it is a folder.

    The path of a folder ends with a slash. Links are not followed and count as files.
    """
    for place, folders, names in os.walk(folder, topdown=False):
        here = Path(place)
        below = here.relative_to(folder)
        for name in (*names, *folders):
            is_folder = name in folders and not (here / name).is_symlink()
            yield (below / name).as_posix() + "/" * is_folder, here / name, is_folder


def _remove_listed(folder: Path, listed: Collection[str]) -> None:
    """Remove what is listed, and the folder itself when it is empty then; whatever else is there stays."""
    with contextlib.suppress(OSError):  # what cannot be removed stays, under a name that says what it is
        for name, place, is_folder in _all_in(folder):
            if name in listed and is_folder:
                with contextlib.suppress(OSError):  # something else is in it
                    place.rmdir()
            elif name in listed:
                place.unlink()
        folder.rmdir()


def _beside(target: Path, what: str) -> Path:
    return target.absolute().with_name(f".{target.absolute().name}.{secrets.token_hex(8)}.{what}")
