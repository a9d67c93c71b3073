"""The files beside an ONNX file that hold weights of it.

Their names stand in the file, so a stranger chose them: a name may lead to any file of the machine, to a device that
never ends, or into /proc. Each is checked here before anything reads or hashes it.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path, PurePosixPath, PureWindowsPath

from diffgen.models.untrusted.archives import UntrustedError

# Messages of onnx.proto3 on the way to tensors: field number -> kind of the message in it.
_INSIDE: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse tensor", 23: "sparse tensor"},
    "sparse tensor": {1: "tensor", 2: "tensor"},
}
_EXTERNAL_DATA, _KEY, _VALUE = 13, 1, 2
_DEEPEST = 100  # as protobuf itself
_LONGEST = 80


class MissingWeightsError(Exception):
    """A file with weights is not there; the message is its name."""


def external_files(path: Path) -> list[str]:
    """Names of the files that an ONNX file keeps weights in, relative to it, sorted.

    Initializers, constants of nodes, graphs inside of nodes and functions are looked through. A name that is returned
    leads to a regular file in the folder of the model, or in the one that the model itself is a link to.

    Raises:
        UntrustedError: a name leads elsewhere, or to something else than a regular file with something in it.
        MissingWeightsError: a file is not there.
        MalformedError: the file is not what it seems.
        OSError: it cannot be read.
    """
    names: set[str] = set()
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        pending = [("model", 0, len(data), 0)]
        while pending:
            kind, start, end, depth = pending.pop()
            if depth > _DEEPEST:
                raise MalformedError(cut_off=False)
            inside = _INSIDE.get(kind, {})
            for found in fields(data, start, end):
                if found.wire != BYTES:
                    continue
                if kind == "tensor" and found.number == _EXTERNAL_DATA:
                    names |= _location(data, found)
                elif found.number in inside:
                    pending.append((inside[found.number], found.start, found.end, depth + 1))
    for name in sorted(names):
        _check(path, name)
    return sorted(names)


def _location(data: mmap, entry: Field) -> set[str]:
    """The value of an entry whose key is "location"."""
    pair = {part.number: data[part.start : part.end] for part in fields(data, entry.start, entry.end)}
    if pair.get(_KEY) != b"location":
        return set()
    return {pair.get(_VALUE, b"").decode("utf-8", errors="surrogateescape")}


def _check(model: Path, name: str) -> None:
    shown = f"its weights are in {name[:_LONGEST]!r}"
    parts = PureWindowsPath(name).parts
    if not name.isprintable() or not parts or PurePosixPath(name).is_absolute() or PureWindowsPath(name).anchor:
        raise UntrustedError(f"{shown}, which does not name a file beside it")
    if ".." in parts:
        raise UntrustedError(f"{shown}, which leads out of its folder")
    weights = model.parent / name
    try:
        found = weights.stat()
        target = weights.resolve(strict=True)
    except FileNotFoundError as error:
        raise MissingWeightsError(name) from error
    # caches of downloads keep links to files that lie together
    if not any(target.is_relative_to(folder) for folder in (model.parent.resolve(), model.resolve().parent)):
        raise UntrustedError(f"{shown}, a link that leads out of its folder")
    if not stat.S_ISREG(found.st_mode) or found.st_size == 0:  # those in /proc have no size
        raise UntrustedError(f"{shown}, which is not a regular file with something in it")


# -- just enough of the protobuf wire format to recognise a file by its fields, without a schema ---------------------

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class MalformedError(Exception):
    """The bytes are not a protobuf message.

    Attributes:
        cut_off: a field goes on beyond the end, as in a message that is cut off.
    """

    def __init__(self, *, cut_off: bool) -> None:
        super().__init__("the message is cut off" if cut_off else "not a protobuf message")
        self.cut_off = cut_off


@dataclass(frozen=True)
class Field:
    """One field of a message: its number, its wire type, and where its payload lies in the data."""

    number: int
    wire: int
    start: int
    end: int


def fields(data: bytes | mmap, start: int = 0, end: int | None = None) -> Iterator[Field]:
    """The fields of the message that lies in ``data[start:end]``, one after the other; nothing is copied.

    Raises:
        MalformedError: when the first field that is none is reached.
    """
    end = len(data) if end is None else end
    while start < end:
        tag, payload = _varint(data, start, end)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise MalformedError(cut_off=False)
        if wire == VARINT:
            _, start = _varint(data, payload, end)
        elif wire == BYTES:
            length, payload = _varint(data, payload, end)
            start = payload + length
        elif wire in (FIXED64, FIXED32):
            start = payload + (8 if wire == FIXED64 else 4)
        else:
            raise MalformedError(cut_off=False)
        if start > end:
            raise MalformedError(cut_off=True)
        yield Field(number, wire, payload, start)


def _varint(data: bytes | mmap, start: int, end: int) -> tuple[int, int]:
    """A number and where it ends."""
    value = 0
    for place in range(10):
        if start + place >= end:
            raise MalformedError(cut_off=True)
        byte = data[start + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, start + place + 1
    raise MalformedError(cut_off=False)
