"""diffgen.runs.arrays: a bound on what is unpacked. What comes back is tested in test_files.py."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from diffgen.runs import arrays
from diffgen.runs.arrays import read_arrays, write_arrays


def header(shape: str, kind: str = "|u1") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (64 - (len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def zipped(
    path: Path, content: bytes, *, method: int = zipfile.ZIP_DEFLATED, names: tuple[str, ...] = ("x.npy",)
) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name in names:
            archive.writestr(name, content)


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    """A file of 0.3 MB; reading it would take 300 MiB."""
    size = arrays._ALWAYS_ALLOWED + 2**20
    zipped(tmp_path / "bomb.npz", header(f"({size},)") + bytes(size))
    assert (tmp_path / "bomb.npz").stat().st_size < 2**20
    tracemalloc.start()
    with pytest.raises(ValueError, match="unpack to more than"):
        read_arrays(tmp_path / "bomb.npz")
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


@pytest.mark.parametrize("shape", ["(10**15,)", "(1000000000000000,)", "(-1,)", "(2, 99999999)", "(0, -5)"])
def test_a_header_that_promises_more_than_there_is(tmp_path: Path, shape: str) -> None:
    zipped(tmp_path / "a.npz", header(shape) + bytes(100))
    tracemalloc.start()
    with pytest.raises(ValueError):
        read_arrays(tmp_path / "a.npz")
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_cannot_be_unpacked_in_pieces_is_refused(tmp_path: Path, method: int) -> None:
    zipped(tmp_path / "a.npz", header("(100,)") + bytes(100), method=method)
    with pytest.raises(ValueError, match="compressed with method"):
        read_arrays(tmp_path / "a.npz")


def test_odd_members(tmp_path: Path) -> None:
    content = header("(3,)") + bytes(3)
    zipped(tmp_path / "a.npz", content)
    assert read_arrays(tmp_path / "a.npz")["x"].tolist() == [0, 0, 0]
    many = tuple(f"{number}.npy" for number in range(1001))
    for names, said in ((("x.npy", "x.npy"), "twice"), (("x.txt",), "no array"), (many, "members")):
        with pytest.warns(UserWarning) if names == ("x.npy", "x.npy") else _nothing():
            zipped(tmp_path / "a.npz", content, names=names)
        with pytest.raises(ValueError, match=said):
            read_arrays(tmp_path / "a.npz")


def _nothing() -> io.StringIO:
    return io.StringIO()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.npz", {"x": np.arange(3)})
    (tmp_path / "b.npz").symlink_to(tmp_path / "a.npz")
    with pytest.raises(OSError, match="symbolic link"):
        read_arrays(tmp_path / "b.npz")


def test_columns_first_and_arrays_that_may_be_changed(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.npz", {"x": np.asfortranarray(np.arange(6).reshape(2, 3)), "one": np.array(5.0)})
    found = read_arrays(tmp_path / "a.npz")
    assert found["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["one"] == 5.0
    found["x"][0, 0] = 7
