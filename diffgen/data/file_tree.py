"""Files below one root, in a folder or in a zip; both look the same to those who read images from them.

A zip is never extracted: members are read into memory one by one, and none may be larger than it has to be.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from diffgen.errors import UserError
from diffgen.runs.opening import open_regular

Parts = tuple[str, ...]

# What folders and files are called that divide a data set, the better name first.
SPLIT_NAMES = {
    "test": ("test", "testing", "val", "valid", "validation"),
    "train": ("train", "training"),
}

# A 32x32 picture takes about a thousand bytes; even a camera's photograph stays below this.
MAX_FILE_BYTES = 64 * 2**20
# In all: members are read one by one.
MAX_ZIP_BYTES = 512 * 2**30
MAX_FILES = 2_000_000
# root/split/class/name, and some folders around them.
_MAX_DEPTH = 8
# zipfile decompresses deflate in bounded pieces, but bzip2 and LZMA at one go, whatever size comes out.
_BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_HEAD = 64  # bytes; enough to know a kind of file by


@dataclass(frozen=True)
class FileTree:
    """What lies below a root, without hidden files and those that macOS adds to a zip.

    Attributes:
        files: path of each file below the root, sorted.
        folders: path of each folder below the root.
        read: content of a file; raises UserError.
        head: the first bytes of a file; empty where it cannot be read.
        stamp: tells some files from others that lay there before, without reading them; raises UserError.
    """

    files: tuple[Parts, ...]
    folders: frozenset[Parts]
    read: Callable[[Parts], bytes]
    head: Callable[[Parts], bytes]
    stamp: Callable[[Sequence[Parts]], str]


def stamp_of(paths: Iterable[Path]) -> str:
    """What tells files from others: places, sizes, times of writing. UserError if one cannot be looked at."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            found = path.stat()
        except FileNotFoundError:
            found = None  # a link that leads nowhere, which the reading meets
        except OSError as error:
            raise UserError(
                f"The file {str(path)!r} cannot be read ({error.strerror}); repair or remove it."
            ) from error
        about = "" if found is None else f"{found.st_size}\0{found.st_mtime_ns}"
        digest.update(f"{path.absolute()}\0{about}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def folder_tree(folder: Path, source: str) -> FileTree:
    """The files of a folder; links are followed.

    Raises:
        UserError: a folder cannot be listed, or there are too many files.
    """

    def fail(error: OSError) -> None:
        raise UserError(f"The folder {error.filename!r} cannot be read ({error.strerror}); check its permissions.")

    def read(parts: Parts) -> bytes:
        try:
            with open_regular(folder.joinpath(*parts)) as file:
                content = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise UserError(
                f"The file {'/'.join(parts)!r} in {source!r} cannot be read ({error.strerror}); repair or remove it."
            ) from error
        if len(content) > MAX_FILE_BYTES:
            raise _too_large(parts, source)
        return content

    def head(parts: Parts) -> bytes:
        try:
            with open_regular(folder.joinpath(*parts)) as file:
                return file.read(_HEAD)
        except OSError:
            return b""

    files: list[Parts] = []
    folders: set[Parts] = set()
    # onerror: without it, os.walk leaves out folders that it cannot list and says nothing
    for path, subfolders, names in os.walk(folder, onerror=fail, followlinks=True):
        here = Path(path).relative_to(folder).parts
        subfolders[:] = [name for name in subfolders if not _is_hidden(name)]
        _check_depth(here, source)
        folders.update((*here, name) for name in subfolders)
        files.extend((*here, name) for name in names if not _is_hidden(name))
        _check_count(len(files) + len(folders), source)
    return FileTree(
        files=tuple(sorted(files)),
        folders=frozenset(folders),
        read=read,
        head=head,
        stamp=lambda paths: stamp_of(folder.joinpath(*parts) for parts in paths),
    )


@contextmanager
def zip_tree(path: Path, source: str) -> Iterator[FileTree]:
    """The members of a zip, which stays open within the block.

    Raises:
        UserError: damaged, encrypted, or with a member whose path leads out of the archive, that appears twice, that
            is compressed in a way that cannot be bounded, or that is too large.
    """
    try:
        archive = zipfile.ZipFile(path)
    except Exception as error:  # zipfile raises half a dozen types on damaged directories, struct.error among them
        raise UserError(f"The zip {source!r} cannot be opened ({error}); it is damaged, so make it again.") from error
    with archive:
        _check_count(len(archive.filelist), source)
        members: dict[Parts, zipfile.ZipInfo] = {}
        folders: set[Parts] = set()
        for member in archive.filelist:
            parts = _member_parts(member.filename, source)
            if not parts or any(_is_hidden(part) for part in parts):
                continue
            _check_depth(parts[:-1], source)
            if member.is_dir() or member.filename.endswith("\\"):
                folders.add(parts)
                continue
            if parts in members:
                raise UserError(f"The zip {source!r} holds {'/'.join(parts)!r} twice; make it again from the folder.")
            members[parts] = member
        folders.update(parts[:depth] for parts in members for depth in range(1, len(parts)))
        if sum(member.file_size for member in members.values()) > MAX_ZIP_BYTES:
            raise UserError(
                f"The zip {source!r} unpacks to more than {MAX_ZIP_BYTES // 2**30} GiB; leave out everything that is "
                "not an image."
            )
        yield FileTree(
            files=tuple(sorted(members)),
            folders=frozenset(folders),
            read=lambda parts: _read_member(archive, members[parts], parts, source),
            head=lambda parts: _head_of_member(archive, members[parts]),
            stamp=lambda paths: stamp_of([path]),
        )


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, parts: Parts, source: str) -> bytes:
    name = "/".join(parts)
    if member.flag_bits & 0x1:
        raise UserError(f"The file {name!r} in the zip {source!r} is encrypted; make the zip again without a password.")
    if member.compress_type not in _BOUNDED:
        raise UserError(
            f"The file {name!r} in the zip {source!r} is compressed with method {member.compress_type}; "
            "make the zip again with the usual one (deflate)."
        )
    if member.file_size > MAX_FILE_BYTES:
        raise _too_large(parts, source)
    try:
        with archive.open(member) as file:
            # With a number, zipfile decompresses no more than that, even if the declared size is a lie; a content that
            # is not as long as declared fails its checksum.
            return file.read(member.file_size + 1)
    except Exception as error:  # damaged members raise BadZipFile, zlib.error, EOFError, NotImplementedError, ...
        raise UserError(
            f"The file {name!r} in the zip {source!r} cannot be read ({error}); the zip is damaged, so make it again."
        ) from error


def _head_of_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    if member.compress_type not in _BOUNDED:
        return b""
    try:
        with archive.open(member) as file:
            return file.read(_HEAD)
    except Exception:  # encrypted or damaged, which raises as many kinds as above; whoever reads it whole is told
        return b""


def _member_parts(name: str, source: str) -> Parts:
    """Folders and file name; some programs of Windows write backslashes."""
    slashed = name.replace("\\", "/")
    parts = tuple(part for part in slashed.split("/") if part not in ("", "."))
    if slashed.startswith("/") or ".." in parts or re.match(r"[A-Za-z]:", slashed):
        raise UserError(
            f"The zip {source!r} holds a file {name!r} whose path leads out of the zip; make it again from the folder."
        )
    return parts


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def _check_count(count: int, source: str) -> None:
    if count > MAX_FILES:
        raise UserError(f"More than {MAX_FILES} files lie in {source!r}; give the folder that holds the images only.")


def _check_depth(folder: Parts, source: str) -> None:
    # Also ends a walk through a link that leads back to a folder around it.
    if len(folder) > _MAX_DEPTH:
        raise UserError(
            f"The folders in {source!r} are more than {_MAX_DEPTH} deep; give the folder that holds the class folders."
        )


def _too_large(parts: Parts, source: str) -> UserError:
    return UserError(
        f"The file {'/'.join(parts)!r} in {source!r} is larger than {MAX_FILE_BYTES // 2**20} MiB; "
        "make the image smaller or remove it."
    )
