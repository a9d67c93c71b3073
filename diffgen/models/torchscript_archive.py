"""A look into a TorchScript archive before torch opens it.

TorchScript is a small language of its own, but it has operators that write and read files. torch runs a part of the
code already when it opens the archive (``__setstate__``), so the code is read here first. It also believes what the
archive says of the size of its weights, and reads on beyond the end of those that are shorter.
"""

from __future__ import annotations

import ast
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from diffgen.models.archives import UntrustedError

# Operators that reach for files or for other machines, under whatever name space.
_REACHING = frozenset(
    {
        *("save", "from_file", "read_file", "write_file", "load_tensor"),
        *("rpc_async", "rpc_remote", "rpc_sync"),
    }
)
# PyTorch 1.0 to 1.3 kept its code elsewhere; torch still reads that where there is such a file.
_OLD = "model.json"


# Bytes of a number in torch's typed storages; of others, at least one is there.
_BYTES = {
    "ComplexDoubleStorage": 16,
    **dict.fromkeys(("DoubleStorage", "LongStorage", "ComplexFloatStorage"), 8),
    **dict.fromkeys(("FloatStorage", "IntStorage", "QInt32Storage"), 4),
    **dict.fromkeys(("HalfStorage", "BFloat16Storage", "ShortStorage"), 2),
}


def check_archive(path: Path) -> None:
    """See that a TorchScript file only computes, and that its weights are all there.

    Raises:
        UntrustedError: it names an operator that reaches for files, or its code cannot be read.
        OSError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error: it is damaged; weights are cut off.
    """
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            folder, _, file = name.rpartition("/")
            if file == _OLD:
                raise UntrustedError(f"it holds {name!r}, as no PyTorch of today writes it")
            if file.endswith(".py"):
                for found in _names(archive.read(name)):
                    if found in _REACHING:
                        raise UntrustedError(f"its code names {found!r}, which is an operator on files or machines")
            if file in ("data.pkl", "constants.pkl"):
                with archive.open(name) as program:
                    _check_weights(archive, program, f"{folder}/{file.removesuffix('.pkl')}/".removeprefix("/"))


def is_quantized(path: Path) -> bool:
    """Whether the code of a sound TorchScript file calls quantized operators."""
    with zipfile.ZipFile(path) as archive:
        return any(b"quantized." in archive.read(name) for name in archive.namelist() if name.endswith(".py"))


def _check_weights(archive: zipfile.ZipFile, program: IO[bytes], folder: str) -> None:
    """See that every array of numbers in ``folder`` is as long as the pickle says."""
    reader = _StorageReader(program)
    try:
        reader.load()
    except Exception as error:  # a damaged pickle may raise anything
        raise zipfile.BadZipFile("the list of its weights is damaged") from error
    for key, size in reader.sizes.items():
        try:
            there = archive.getinfo(f"{folder}{key}").file_size
        except KeyError:
            there = 0
        if there < size:
            raise zipfile.BadZipFile(f"its weights {key!r} are cut off, {there} bytes of {size}")


class _Inert:
    """Stands for everything that a pickle names, and does nothing."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, value: Any) -> None:
        pass


class _StorageReader(pickle.Unpickler):
    """Goes through a pickle without making anything that it names; collects the arrays of numbers that it refers to.

    Attributes:
        sizes: name -> bytes that it must have at least.
    """

    def __init__(self, program: IO[bytes]) -> None:
        super().__init__(program)
        self.sizes: dict[str, int] = {}

    def find_class(self, module: str, name: str) -> type[_Inert]:
        return type(name, (_Inert,), {})

    def persistent_load(self, pid: Any) -> _Inert:
        _, kind, key, _, count = pid
        size = int(count) * _BYTES.get(kind.__name__, 1)
        self.sizes[str(key)] = max(size, self.sizes.get(str(key), 0))
        return _Inert()


def _names(code: bytes) -> Iterator[str]:
    """Every name in it, and every text, by which ``getattr`` could ask for one."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UntrustedError("its code cannot be read") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
