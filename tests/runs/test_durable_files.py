"""diffgen.runs.files: what is kept beside, what reaches the disk, what killed processes leave behind."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from diffgen.errors import UserError
from diffgen.runs import files
from diffgen.runs.arrays import read_arrays, write_arrays
from diffgen.runs.files import make_folder, remove_temporaries, write_text, write_whole


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
