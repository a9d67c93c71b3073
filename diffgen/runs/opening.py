"""Opens files that somebody else may have put there: only regular ones, and in a folder of ours none through a link.

A pipe without a writer would be waited for without end, a device read for ever, and a symbolic link in a run folder
from a stranger may lead to any file of the user.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tomllib
from pathlib import Path
from typing import Any, BinaryIO, Literal

from diffgen.errors import UserError

_LARGEST_TOML = 4 << 20  # bytes; a file that names every setting has some kilobytes
LONGEST_TEXT = 64 * 2**20  # bytes; a manifest of 10,000 parts has one
# Windows has neither; there the look at the file before it is opened has to do
_NOT_THROUGH_A_LINK = getattr(os, "O_NOFOLLOW", 0)
_WITHOUT_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_CLOSED_FOR_CHILDREN = getattr(os, "O_CLOEXEC", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_VIEWS = ("/proc", "/sys")
_KINDS = {
    stat.S_IFDIR: "it is a folder",
    stat.S_IFLNK: "it is a symbolic link, which is not followed here",
    stat.S_IFIFO: "it is a pipe",
    stat.S_IFSOCK: "it is a socket",
    stat.S_IFCHR: "it is a device",
    stat.S_IFBLK: "it is a device",
}


def check_regular(path: Path, *, links: bool = True) -> os.stat_result:
    """See that a path leads to a regular file, for libraries that open it themselves.

    Args:
        links: whether it may be a symbolic link to one.

    Raises:
        OSError: it is missing or anything else; ``strerror`` says what.
    """
    found = path.stat() if links else path.lstat()
    _refuse_special(found, path)
    # regular to stat, and some never end: reading /proc/kmsg waits for the next message of the kernel
    real = Path(os.path.realpath(path))
    if any(real.is_relative_to(folder) for folder in _VIEWS):
        raise OSError(errno.EINVAL, "it is no file on a disk but a view into the system", str(path))
    return found


def open_regular(path: Path, *, links: bool = True) -> BinaryIO:
    """Open a regular file for reading; see :func:`check_regular`.

    Raises:
        OSError: it is missing, cannot be read or is no regular file; ``strerror`` says what it is.
    """
    check_regular(path, links=links)
    flags = os.O_RDONLY | _WITHOUT_WAITING | _CLOSED_FOR_CHILDREN | _BINARY
    descriptor = os.open(path, flags if links else flags | _NOT_THROUGH_A_LINK)
    return _checked(descriptor, path, "rb")


def open_in_place(path: Path) -> BinaryIO:
    """Open a file of ours for reading and for writing over it; it is made if it is missing.

    It has no buffer: closing one after a full disk would write, and fail, once more.

    Raises:
        OSError: it is a link, no regular file, or known by a second name, under which it may be another's file.
    """
    with contextlib.suppress(FileNotFoundError):
        check_regular(path, links=False)
    flags = os.O_RDWR | os.O_CREAT | _NOT_THROUGH_A_LINK | _WITHOUT_WAITING | _CLOSED_FOR_CHILDREN | _BINARY
    file = _checked(os.open(path, flags, 0o666), path, "r+b")
    try:
        refuse_second_name(os.fstat(file.fileno()), path)
    except OSError:
        file.close()
        raise
    return file


def refuse_second_name(found: os.stat_result, path: Path) -> None:
    """See that a file that is written over has one name only. OSError if it is a hard link."""
    if found.st_nlink > 1:
        raise OSError(errno.EMLINK, "it has a second name elsewhere (a hard link)", str(path))


def read_bytes(path: Path, *, longest: int = LONGEST_TEXT, links: bool = True) -> bytes:
    """The content of a regular file of bounded length.

    Raises:
        OSError: see :func:`open_regular`; or it is longer than ``longest`` bytes.
    """
    with open_regular(path, links=links) as file:
        content = file.read(longest + 1)
    if len(content) > longest:
        raise OSError(errno.EFBIG, f"it is longer than {longest:,} bytes", str(path))
    return content


def read_text(path: Path, *, encoding: str = "utf-8", longest: int = LONGEST_TEXT, links: bool = True) -> str:
    """The text of a regular file of bounded length.

    Raises:
        OSError: see :func:`read_bytes`.
        UnicodeDecodeError: it is no text in that encoding.
    """
    # as pathlib reads text: the line ends of Windows are line ends too
    text = read_bytes(path, longest=longest, links=links).decode(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The values in a TOML file, with or without the byte order mark that some editors put in front.

    Args:
        what: what the file is, for the message: "The sidecar", say.

    Raises:
        UserError: the file cannot be read, is larger than 4 MiB, or is not TOML.
    """
    try:
        with open_regular(path) as file:
            contents = file.read(_LARGEST_TOML + 1)
        if len(contents) > _LARGEST_TOML:
            raise UserError(f"{what} {path} has more than {_LARGEST_TOML >> 20} MiB; repair or remove it.")
        return tomllib.loads(contents.decode("utf-8-sig"))
    except OSError as error:
        advice = "check its permissions" if isinstance(error, PermissionError) else "check the path"
        raise UserError(f"{what} {path} cannot be read ({error.strerror}); {advice}.") from error
    except RecursionError as error:
        raise UserError(f"{what} {path} is nested too deeply; repair or remove it.") from error
    except ValueError as error:
        raise UserError(f"{what} {path} is not valid TOML ({error}); repair or remove it.") from error


def inside(folder: Path, *names: str) -> Path:
    """The path of something in a folder of ours, once no step below that folder is a symbolic link or a special file.

    It need not exist. The folder itself may be a link: the user named it.

    Raises:
        UserError: a step is a link, a pipe, a device or a socket, or one before the last is no folder; or no file can
            have such a name.
    """
    path = folder
    for position, name in enumerate(names):
        path = path / name
        try:
            mode = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise UserError(f"{path} cannot be looked at ({error.strerror}); see who owns it.") from error
        except ValueError as error:  # a null character
            raise UserError(f"{str(path)!r} is no path; name another.") from error
        if stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and position == len(names) - 1):
            continue
        what = "it is a file" if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "it is no regular file")
        raise UserError(f"{path} cannot be used ({what}); diffgen made no such thing there, so remove it.")
    return path


def _refuse_special(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        what = _KINDS.get(stat.S_IFMT(found.st_mode), "it is a special file")
        raise OSError(errno.EINVAL, what, str(path))


def _checked(descriptor: int, path: Path, mode: Literal["rb", "r+b"]) -> BinaryIO:
    """A file object of an open file, looked at once more: another may lie there since."""
    try:
        _refuse_special(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, mode) if mode == "rb" else os.fdopen(descriptor, mode, buffering=0)
