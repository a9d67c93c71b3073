"""Just enough of the protobuf wire format to recognise a file by its fields, without a schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap

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
