"""The metadata of a TensorFlow Lite file: how the pixels of its input were normalized.

A FlatBuffer in a FlatBuffer: one entry of ``Model.metadata`` is named TFLITE_METADATA and gives the number of the
buffer that holds ``ModelMetadata``. A field is found by its number in ``schema.fbs`` and ``metadata_schema.fbs``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any

from diffgen.config import Preprocessing

_MODEL_BUFFERS, _MODEL_METADATA = 4, 6
_NAME = 0  # of an entry, and of its buffer's number the one after it
_DATA = 0  # of a buffer
_SUBGRAPHS, _INPUTS, _PROCESS_UNITS = 3, 2, 4
_KIND, _OPTIONS, _NORMALIZATION = 0, 1, 1  # of a process unit: what kind it is, the options of that kind, and the kind
_MEAN, _STD = 0, 1
_MOST = 4  # values: one for each channel


def declared_normalization(content: bytes) -> Preprocessing:
    """Mean and std that the metadata of a file names for its first input, or nothing.

    Args:
        content: of the file, whoever made it. What cannot be read says nothing.
    """
    from flatbuffers.table import Table

    try:
        for entry in _tables(_root(Table, content), _MODEL_METADATA):
            if _text(entry, _NAME) == b"TFLITE_METADATA":
                number = struct.unpack_from("<I", content, entry.Pos + entry.Offset(_slot(_NAME + 1)))[0]
                buffer = next(islice(_tables(_root(Table, content), _MODEL_BUFFERS), number, None))
                start, length = _vector(buffer, _DATA)
                return _normalization(_root(Table, content[start : start + length]))
    except (struct.error, IndexError, StopIteration, OverflowError, TypeError, ValueError):
        pass
    return Preprocessing()


def _normalization(metadata: Any) -> Preprocessing:
    for subgraph in islice(_tables(metadata, _SUBGRAPHS), 1):
        for image in islice(_tables(subgraph, _INPUTS), 1):
            for unit in _tables(image, _PROCESS_UNITS):
                if unit.Bytes[unit.Pos + unit.Offset(_slot(_KIND))] == _NORMALIZATION:
                    options = type(unit)(unit.Bytes, unit.Indirect(unit.Pos + unit.Offset(_slot(_OPTIONS))))
                    mean, std = _floats(options, _MEAN), _floats(options, _STD)
                    if mean and std and 0.0 not in std:
                        return Preprocessing(scale="0..255", mean=mean, std=std)
    return Preprocessing()


def _root(table: Any, content: bytes) -> Any:
    return table(content, struct.unpack_from("<I", content, 0)[0])


def _slot(number: int) -> int:
    """Where a table's list of fields says where a field is."""
    return 4 + 2 * number


def _vector(table: Any, number: int) -> tuple[int, int]:
    """Where the values of a field begin, and how many there are."""
    offset = table.Offset(_slot(number))
    return (table.Vector(offset), table.VectorLen(offset)) if offset else (0, 0)


def _tables(table: Any, number: int) -> Iterator[Any]:
    start, length = _vector(table, number)
    for place in range(length):
        yield type(table)(table.Bytes, table.Indirect(start + 4 * place))


def _floats(table: Any, number: int) -> tuple[float, ...]:
    start, length = _vector(table, number)
    return struct.unpack_from(f"<{min(length, _MOST)}f", table.Bytes, start)


def _text(table: Any, number: int) -> bytes:
    offset = table.Offset(_slot(number))
    return table.String(table.Pos + offset) if offset else b""
