"""The answers on disk: exact, there after kill -9, and never more than a table."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from diffgen.errors import RunError, UserError
from diffgen.models.remote.store import KeptRows, keys_of

_WRITER = """
import sys, numpy as np
from pathlib import Path
from diffgen.models.remote.store import KeptRows
answers = KeptRows()
answers.move_to(Path(sys.argv[1]))
for number in range(10**9):
    answers.count_sent(1)
    answers.keep({number.to_bytes(32, "big"): np.full(3, number, np.float32)})
    print(number, flush=True)
"""


def test_answers_and_count_move_to_a_file_and_come_back(tmp_path: Path) -> None:
    file = tmp_path / "answers.sqlite"
    rows = np.random.default_rng(0).random((1200, 10), dtype=np.float32)
    keys = keys_of(np.arange(1200, dtype=np.uint8).reshape(1200, 1) // 7, "x")  # not all different
    keys = [key + bytes([row % 256, row // 256]) for row, key in enumerate(keys)]
    answers = KeptRows()
    answers.keep(dict(zip(keys[:700], rows[:700], strict=True)))
    answers.count_sent(700)
    answers.move_to(file)
    answers.keep(dict(zip(keys[700:], rows[700:], strict=True)))
    answers.count_sent(600)
    answers.close()
    again = KeptRows()
    again.count_sent(5)
    again.move_to(file)
    assert again.images_sent == 1305
    found = again.find([*keys, b"unknown", keys[0]])
    assert len(found) == 1200
    assert all(found[key].tobytes() == row.tobytes() for key, row in zip(keys, rows, strict=True))
    again.close()
    assert [each.name for each in tmp_path.iterdir()] == ["answers.sqlite"]


def test_keys_are_of_the_exact_bytes_and_of_what_else_is_said() -> None:
    image = np.zeros((1, 1, 2, 2), np.float32)
    other = image.copy()
    other[0, 0, 0, 0] = -0.0
    keys = [
        *keys_of(image, "a"),
        *keys_of(other, "a"),
        *keys_of(image, "b"),
        *keys_of(image.reshape(1, 4), "a"),
        *keys_of(image.view(np.uint32), "a"),
    ]
    assert len(set(keys)) == 5
    assert keys_of(np.concatenate([other, image]), "a") == [keys[1], keys[0]]


def test_what_was_kept_is_there_after_kill_9(tmp_path: Path) -> None:
    file = tmp_path / "answers.sqlite"
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", _WRITER, file], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(50)]
        process.send_signal(signal.SIGKILL)
        last = int((lines + process.stdout.readlines())[-1])
        process.communicate()
        answers = KeptRows()
        answers.move_to(file)
        found = answers.find(number.to_bytes(32, "big") for number in range(last + 1))
        assert len(found) == last + 1
        assert all(row.tolist() == [int.from_bytes(key, "big")] * 3 for key, row in found.items())
        assert answers.images_sent >= last + 1
        answers.close()


def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    file = tmp_path / "answers.sqlite"
    file.write_bytes(b"no database" * 500)
    with pytest.raises(UserError, match=r"is damaged.*remove it to ask and pay anew"):
        KeptRows().move_to(file)
    file.unlink()
    answers = KeptRows()
    answers.move_to(file)
    answers.keep({b"key": np.zeros(3, np.float32)})
    answers.close()
    with sqlite3.connect(file) as raw:
        raw.execute("UPDATE answers SET row = x'0102'")
    raw.close()
    answers = KeptRows()
    answers.move_to(file)
    with pytest.raises(UserError, match="is damaged"):
        answers.find([b"key"])


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="Root may write everywhere.")
def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(RunError, match="cannot be written"):
        KeptRows().move_to(tmp_path / "answers.sqlite")


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be written"):
        KeptRows().move_to(tmp_path / "nowhere" / "answers.sqlite")
