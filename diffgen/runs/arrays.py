"""Files of arrays (.npz) without pickles, read with a bound on what they unpack to."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from diffgen.runs.files import write_whole
from diffgen.runs.opening import open_regular

_JSON_MEMBER = "json"
_SUFFIX = ".npy"
_MAX_MEMBERS = 1_000
# A file may unpack to this many bytes, or to this many times its own length, whichever is more: arrays of equal values
# shrink a thousandfold but are short, whole run folders hardly shrink at all.
_ALWAYS_ALLOWED = 256 * 2**20
_LARGEST_RATIO = 100


def write_arrays(path: Path, arrays: Mapping[str, Any], *, compress: bool = False, keep_as: Path | None = None) -> None:
    """Write an .npz of arrays; values that are no arrays go in together as JSON, never as a pickle.

    ``keep_as``: see :func:`diffgen.runs.files.write_whole`.

    Raises:
        ValueError: an array holds Python objects.
        RunError: the disk is full or the folder cannot be written.
    """
    members = _as_members(arrays)

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            save = np.savez_compressed if compress else np.savez
            save(file, **members)

    write_whole(path, write, keep_as=keep_as)


def packed(arrays: Mapping[str, Any]) -> bytes:
    """The content of the file that :func:`write_arrays` would write.

    Raises:
        ValueError: an array holds Python objects.
    """
    file = io.BytesIO()
    np.savez(file, **_as_members(arrays))
    return file.getvalue()


def unpacked(content: bytes) -> dict[str, Any]:
    """What :func:`packed` was given; as careful as :func:`read_arrays`.

    Raises:
        ValueError: truncated, damaged, another kind of content, or it would unpack to too much.
    """
    return _read(io.BytesIO(content), len(content), only=None, unread=None)


def _as_members(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of a file; values that are no arrays go in together as JSON."""
    plain = {name: value for name, value in arrays.items() if not isinstance(value, np.ndarray)}
    members: dict[str, Any] = {name: value for name, value in arrays.items() if isinstance(value, np.ndarray)}
    for name, array in members.items():
        if array.dtype.hasobject:
            raise ValueError(f"the array {name!r} holds Python objects, which only a pickle could keep")
    if plain:
        members[_JSON_MEMBER] = np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8)
    return members


def read_arrays(path: Path, *, only: str | None = None, unread: str | None = None) -> dict[str, Any]:
    """What :func:`write_arrays` wrote; nothing is followed, run or unpacked beyond the bound.

    Args:
        path: the file.
        only: one array, and nothing else is read; it must be there.
        unread: an array of which only type and shape are read: zeros, of no memory, stand in its place.

    Raises:
        OSError: missing, a symbolic link, no regular file, or the disk fails.
        ValueError: truncated, damaged, another kind of file, or it would unpack to too much.
    """
    with open_regular(path, links=False) as file:
        return _read(file, path.lstat().st_size, only=only, unread=unread)


def _read(file: IO[bytes], size: int, *, only: str | None, unread: str | None) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(file) as archive:
            members = _members(archive, size)
            if only is not None:
                members = {only: members[only]}
            values: dict[str, Any] = {
                name: _array(archive, member, read=name != unread) for name, member in members.items()
            }
        if _JSON_MEMBER in values:
            values.update(json.loads(values.pop(_JSON_MEMBER).tobytes()))
    except OSError:
        raise
    except zipfile.BadZipFile as error:
        raise ValueError(str(error).replace("Bad CRC-32 for", "the checksum is wrong of")) from error
    except Exception as error:
        # damage shows itself as zlib.error, NotImplementedError, RuntimeError, ... after where it hit the zip
        raise ValueError(str(error) or type(error).__name__) from error
    return values


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Name -> member, once there are not too many of them and what they say of their length is bounded."""
    found = archive.infolist()
    if len(found) > _MAX_MEMBERS:
        raise ValueError(f"it has {len(found):,} members")
    allowed = max(_ALWAYS_ALLOWED, _LARGEST_RATIO * size)
    if sum(member.file_size for member in found) > allowed:
        raise ValueError(f"it would unpack to more than {allowed:,} bytes")
    members = {}
    for member in found:
        # bzip2 and LZMA are unpacked at one go, whatever comes out
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{member.filename!r} is compressed with method {member.compress_type}")
        name = member.filename.removesuffix(_SUFFIX)
        if name in members or name == member.filename:
            raise ValueError(f"{member.filename!r} is there twice or no array")
        members[name] = member
    return members


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, *, read: bool) -> np.ndarray[Any, Any]:
    """One array, of exactly the length that the member has; without being ``read`` only its type and shape."""
    with archive.open(member) as stream:
        shape, fortran, kind = _header(stream)
        if kind.hasobject:
            raise ValueError("it holds Python objects; allow_pickle is never set")
        left = member.file_size - stream.tell()
        count = 1
        for side in shape:
            count *= side
        if count * kind.itemsize > left:
            raise ValueError(f"{member.filename!r} is shorter than its header says")
        if not read:
            return np.broadcast_to(np.zeros((), dtype=kind), shape)
        # more than the header says is read too: only at the end of a member its checksum is compared
        content = stream.read(left + 1)
        if len(content) != count * kind.itemsize:
            raise ValueError(f"{member.filename!r} is not as long as its header says")
    flat = np.frombuffer(bytearray(content), dtype=kind, count=count)
    return flat.reshape(shape[::-1]).transpose() if fortran else flat.reshape(shape)


def _header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    read: Any = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"it has version {version} of the format of arrays")
    shape, fortran, kind = read(stream)
    if any(side < 0 for side in shape):
        raise ValueError(f"it has the shape {shape}")
    return shape, fortran, kind
