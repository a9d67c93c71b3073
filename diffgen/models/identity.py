"""What identifies a model file: a digest of its contents."""

from __future__ import annotations

import hashlib
from mmap import ACCESS_READ, mmap
from pathlib import Path

from diffgen.errors import UserError
from diffgen.models.protobuf import BYTES, MalformedError, fields

# Field numbers of onnx.proto3.
_MODEL_GRAPH, _GRAPH_INITIALIZER, _TENSOR_EXTERNAL_DATA, _ENTRY_KEY, _ENTRY_VALUE = 7, 5, 13, 1, 2


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's contents, as 64 hexadecimal digits.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def onnx_sha256(path: Path) -> str:
    """SHA-256 of an ONNX file, together with the files beside it that hold its weights, if there are any.

    Two models of the same network that keep their weights in files of their own, as torch.onnx.export does by now,
    are the same file byte for byte; the digest of that file alone would take them for one model.

    Raises:
        UserError: a file with weights is missing.
        OSError: a file cannot be read.
    """
    names = external_files(path)
    if not names:
        return file_sha256(path)
    sha = hashlib.sha256(file_sha256(path).encode())
    for name in names:
        weights = path.parent / name
        if not weights.is_file():
            raise UserError(f"{path} keeps its weights in a file {name} that is not beside it; put it there.")
        sha.update(f"\n{name} {file_sha256(weights)}".encode())
    return sha.hexdigest()


def external_files(path: Path) -> list[str]:
    """Names of the files that an ONNX file keeps weights in, relative to it, sorted; none for a malformed file."""
    names: set[str] = set()
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        try:
            for graph in fields(data):
                if (graph.number, graph.wire) == (_MODEL_GRAPH, BYTES):
                    for tensor in fields(data, graph.start, graph.end):
                        if (tensor.number, tensor.wire) == (_GRAPH_INITIALIZER, BYTES):
                            names |= _locations(data, tensor.start, tensor.end)
        except MalformedError:
            # onnxruntime says what is wrong with it; there is nothing to identify.
            return []
    return sorted(names)


def _locations(data: mmap, start: int, end: int) -> set[str]:
    """Values of the entries "location" of one tensor."""
    found = set()
    for entry in fields(data, start, end):
        if (entry.number, entry.wire) == (_TENSOR_EXTERNAL_DATA, BYTES):
            pair = {part.number: data[part.start : part.end] for part in fields(data, entry.start, entry.end)}
            if pair.get(_ENTRY_KEY) == b"location":
                found.add(pair.get(_ENTRY_VALUE, b"").decode("utf-8", errors="replace"))
    return found
