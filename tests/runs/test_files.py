"""diffgen.runs.files"""

from __future__ import annotations

import errno
import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from safetensors.torch import save_file

from diffgen.errors import RunError, UserError
from diffgen.runs import files
from diffgen.runs.arrays import read_arrays, write_arrays
from diffgen.runs.files import make_folder, remove_temporaries, write_json, write_text, write_whole

READ_ERRORS = (OSError, ValueError)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


# -- whole or not at all ---------------------------------------------------------------------------------------------


def test_a_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def write(temporary: Path) -> None:
        temporary.write_text("half")
        assert not path.exists()
        assert temporary.parent == path.parent  # a rename across disks is not one step
        temporary.write_text("whole")

    write_whole(path, write)
    assert path.read_text() == "whole"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        PermissionError(errno.EACCES, "Permission denied"),
        ValueError("a bug"),
        KeyboardInterrupt(),
        MemoryError(),
    ],
)
@pytest.mark.parametrize("exists", [False, True])
def test_a_writer_that_breaks_off_leaves_the_old_file(tmp_path: Path, error: BaseException, exists: bool) -> None:
    path = tmp_path / "file"
    if exists:
        path.write_text("old")

    def write(temporary: Path) -> None:
        temporary.write_text("ne")
        raise error

    with pytest.raises(RunError if isinstance(error, OSError) else type(error)) as caught:
        write_whole(path, write)
    assert names(tmp_path) == (["file"] if exists else [])
    assert not exists or path.read_text() == "old"
    if isinstance(error, OSError):
        assert str(path) in str(caught.value)
        assert str(error.strerror) in str(caught.value)
        assert caught.value.exit_code == 3


def test_a_missing_folder_is_a_run_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be written"):
        write_text(tmp_path / "missing" / "file", "text")
    assert names(tmp_path) == []


def test_a_folder_in_the_way_is_a_run_error(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "inside").touch()
    with pytest.raises(RunError, match="cannot be written"):
        write_text(tmp_path / "file", "text")
    assert names(tmp_path) == ["file"]
    assert names(tmp_path / "file") == ["inside"]


def test_safetensors_tells_of_a_full_disk_in_its_own_way(tmp_path: Path) -> None:
    def write(temporary: Path) -> None:
        temporary.write_bytes(b"half")
        save_file({"x": torch.zeros(3)}, temporary.parent / "missing" / "file")

    with pytest.raises(RunError, match="cannot be written"):
        write_whole(tmp_path / "file", write)
    assert names(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    def write(temporary: Path) -> None:
        temporary.unlink()
        temporary.symlink_to("/dev/full")
        temporary.write_bytes(b"x" * 100_000)

    with pytest.raises(RunError, match="No space left"):
        write_whole(tmp_path / "file", write)
    assert names(tmp_path) == []


def test_text_and_json_are_utf_8(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "Größe: 5 µm\n")
    assert (tmp_path / "a").read_bytes() == "Größe: 5 µm\n".encode()
    value = {"name": "naïve", "list": [1, 2.5, None, True], "big": 2**127}
    write_json(tmp_path / "b", value)
    assert json.loads((tmp_path / "b").read_text(encoding="utf-8")) == value
    assert "naïve" in (tmp_path / "b").read_text(encoding="utf-8")


# -- arrays ----------------------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
some_arrays = st.sampled_from([np.uint8, np.int8, np.int64, np.float32, np.float64, np.bool_]).flatmap(
    lambda kind: arrays(kind, array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
)
column_names = st.text(alphabet="abcdefgXF_0123", min_size=1, max_size=8).filter(lambda name: name not in ("file",))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(column_names, some_arrays | json_values, min_size=1, max_size=5), st.booleans())
def test_arrays_and_values_come_back(tmp_path: Path, values: dict[str, Any], compress: bool) -> None:
    write_arrays(tmp_path / "a.npz", values, compress=compress)
    again = read_arrays(tmp_path / "a.npz")
    assert again.keys() == values.keys()
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            assert again[name].dtype == value.dtype
            np.testing.assert_array_equal(again[name], value)
        else:
            assert again[name] == value
            assert type(again[name]) is type(value)


def test_the_state_of_random_numbers_comes_back(tmp_path: Path) -> None:
    """PCG64 counts with 128 bits, which no array can hold."""
    rng = np.random.default_rng(5)
    rng.random(17)
    state = rng.bit_generator.state
    assert state["state"]["state"] > 2**64
    write_arrays(tmp_path / "a.npz", {"random_state": state, "X": rng.random((3, 2))})
    expected = rng.random(10)
    again = np.random.default_rng()
    again.bit_generator.state = read_arrays(tmp_path / "a.npz")["random_state"]
    again.random((3, 2))
    np.testing.assert_array_equal(again.random(10), expected)


@pytest.mark.parametrize("compress", [False, True])
def test_python_objects_are_refused(tmp_path: Path, compress: bool) -> None:
    """They would be written as a pickle, and a run folder from a stranger must be safe to open."""
    (tmp_path / "a.npz").write_text("old")
    for array in (np.array([{"a": 1}]), np.array([None, "x"]), np.zeros(2, dtype=[("x", object)])):
        with pytest.raises(ValueError, match="'bad'"):
            write_arrays(tmp_path / "a.npz", {"good": np.zeros(2), "bad": array}, compress=compress)
    assert names(tmp_path) == ["a.npz"]
    assert (tmp_path / "a.npz").read_text() == "old"


def test_a_pickle_in_a_file_is_not_run(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "boom",))

    np.savez(tmp_path / "a.npz", x=np.array([Bomb()], dtype=object))
    np.save(tmp_path / "b.npy", np.array([Bomb()], dtype=object))
    for name, said in (("a.npz", "allow_pickle"), ("b.npy", "zip")):
        with pytest.raises(ValueError, match=said):
            read_arrays(tmp_path / name)
    assert not (tmp_path / "boom").exists()


def test_the_file_is_a_zip_of_plain_arrays(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.npz", {"X": np.arange(3), "n": 5})
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        assert sorted(archive.namelist()) == ["X.npy", "json.npy"]
    with np.load(tmp_path / "a.npz", allow_pickle=False) as plain:
        assert json.loads(plain["json"].tobytes()) == {"n": 5}


def test_what_is_no_such_file(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    for content in (b"", b"hello", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"\x93NUMPY\x01\x00", bytes(1000)):
        path.write_bytes(content)
        if content.startswith(b"PK\x05"):
            assert read_arrays(path) == {}  # an archive of nothing
            continue
        with pytest.raises(READ_ERRORS):
            read_arrays(path)
    np.save(tmp_path / "b.npy", np.arange(3))
    with pytest.raises(READ_ERRORS):
        read_arrays(tmp_path / "b.npy")
    with pytest.raises(OSError):
        read_arrays(tmp_path / "missing.npz")
    for damaged in (b"[1, 2]", b"5", b"{", b"\xff"):
        np.savez(path, json=np.frombuffer(damaged, dtype=np.uint8))
        with pytest.raises(READ_ERRORS):
            read_arrays(path)


@pytest.mark.parametrize("compress", [False, True])
def test_damaged_files_raise_what_callers_expect(tmp_path: Path, compress: bool) -> None:
    """Cut off anywhere, or with a few bytes changed: zip and zlib have many ways of saying so."""
    path, rng = tmp_path / "a.npz", np.random.default_rng(0)
    levels = rng.integers(0, 256, (20, 1, 8, 8)).astype(np.uint8)
    write_arrays(path, {"images": levels, "query": np.arange(50), "history": [1, 2]}, compress=compress)
    whole = path.read_bytes()
    for length in np.linspace(0, len(whole) - 1, 60, dtype=int):
        path.write_bytes(whole[:length])
        with pytest.raises(READ_ERRORS):
            read_arrays(path)
    refused = 0
    for _ in range(1500):
        damaged = bytearray(whole)
        for position in rng.integers(0, len(whole), rng.choice([1, 2, 8])):
            damaged[position] = int(rng.integers(0, 256))
        path.write_bytes(damaged)
        try:
            read_arrays(path)
        except READ_ERRORS:
            refused += 1
    assert refused > 1000


def test_the_replaced_file_lives_on(tmp_path: Path) -> None:
    for number in range(3):
        write_arrays(tmp_path / "new.npz", {"number": number}, keep_as=tmp_path / "old.npz")
    assert read_arrays(tmp_path / "new.npz") == {"number": 2}
    assert read_arrays(tmp_path / "old.npz") == {"number": 1}


def test_the_file_reaches_the_disk_before_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(files.os, "fsync", lambda handle: (order.append("sync"), sync(handle))[1])
    monkeypatch.setattr(files.os, "replace", lambda a, b: (order.append("rename"), replace(a, b))[1])
    write_text(tmp_path / "file", "text")
    assert order == (["sync", "rename", "sync"] if os.name == "posix" else ["sync", "rename"])
    order.clear()
    write_whole(tmp_path / "file", lambda temporary: temporary.write_text("other"), durable=False)
    assert order == ["rename"]
    assert (tmp_path / "file").read_text() == "other"


def test_a_header_that_hides_a_part_of_its_array_is_damage(tmp_path: Path) -> None:
    """numpy reads as much as the header says; a checksum over all of the member says that there is more."""
    path = tmp_path / "a.npz"
    write_arrays(path, {"x": np.arange(64, dtype=np.int64)})
    content = path.read_bytes()
    assert content.count(b"(64,)") == 1
    path.write_bytes(content.replace(b"(64,)", b"(63,)"))
    with pytest.raises(ValueError, match="checksum"):
        read_arrays(path)


def test_only_our_own_leftovers_are_removed(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    ours = [tmp_path / f".checkpoint.npz.{number}.{'0a' * 8}.tmp" for number in (1, 123)]
    names = [".hidden.tmp", "x.123.tmp", ".a.b.tmp", "checkpoint.npz", f".x.123.{'0a' * 8}.tmp"]
    names += [f"deep/.checkpoint.npz.9.{'0a' * 8}.tmp", ".checkpoint.npz.9.tmp"]
    others = [tmp_path / name for name in names]
    for file in (*ours, *others):
        file.touch()
    (link := tmp_path / f".checkpoint.npz.5.{'0a' * 8}.tmp").symlink_to(tmp_path / "deep")
    remove_temporaries(tmp_path, re.compile("checkpoint[.]npz"))
    assert [file.exists() for file in ours] == [False, False]
    assert link.is_symlink()
    assert all(file.exists() for file in others)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    make_folder(tmp_path / "deep" / "down")
    make_folder(tmp_path / "deep" / "down")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be made, since a file is in its way"):
        make_folder(tmp_path / "file" / "down")
