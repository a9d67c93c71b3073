"""The benchmark of alarms runs, and tells a broken candidate from an honest one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.alarms import kept, main, table

ONLY = (
    "the two best classes tie",
    "wrong on half of one class",
    "noise on the logits, new at every call",
    "8 bits, static",
)


def test_a_few_candidates_on_the_digits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(tmp_path), "--data", "digits", "--budget", "200q", "--random-images", "100", "--epochs", "12"]
    words += ["--only", *ONLY]
    entries = main(words)["digits"]
    assert [entries[name]["exit_code"] for name in ONLY] == [1, 1, 3, 0]
    assert [entries[name]["unlabelled"]["exit_code"] for name in ONLY] == [1, 1, 3, 0]
    assert "sure_disagreement_real" in entries[ONLY[1]]["unlabelled"]["why"]
    # of two classes that tie the first is counted as the answer, so that half of the answers are wrong besides
    assert {"undecided_real", "accuracy_drop", "class_accuracy_drop"} <= set(entries[ONLY[0]]["why"])
    noisy, coarse = (entries[name]["why"] for name in ONLY[2:])
    assert noisy[0] == "steadiness"  # how far its accuracy falls is chance
    assert coarse == []
    assert kept(entries) == {"be refused": "3 of 3 and 3 of 3", "pass": "1 of 1 and 1 of 1"}
    assert json.loads((tmp_path / "alarms.json").read_text()) == {"digits": entries}
    assert table(entries) in capsys.readouterr().out
    # what is recorded is not checked again
    written = (tmp_path / "digits" / "00").exists(), (tmp_path / "alarms.json").stat().st_mtime_ns
    assert main(words)["digits"] == entries
    assert ((tmp_path / "digits" / "00").exists(), (tmp_path / "alarms.json").stat().st_mtime_ns) == written
