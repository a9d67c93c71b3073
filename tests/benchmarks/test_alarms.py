"""The benchmark of alarms runs, and tells a broken candidate from an honest one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.alarms import kept, main, table

ONLY = ("noise on the logits, new at every call", "wrong on half of one class", "8 bits, static")


@pytest.mark.slow
def test_a_few_candidates_on_the_digits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(tmp_path), "--data", "digits", "--budget", "50q", "--random-images", "50", "--epochs", "12"]
    words += ["--only", *ONLY]
    entries = main(words)["digits"]
    noisy, half, coarse = (entries[name] for name in ONLY)
    assert [entry["exit_code"] for entry in (noisy, half, coarse)] == [3, 1, 0]
    assert [entry["unlabelled"]["exit_code"] for entry in (noisy, half, coarse)] == [3, 1, 0]
    assert noisy["why"][0] == "steadiness"  # how far its accuracy falls is chance
    assert {"accuracy_drop", "class_accuracy_drop"} <= set(half["why"])
    assert {"sure_disagreement_real", "class_disagreement_real"} <= set(half["unlabelled"]["why"])
    assert coarse["why"] == coarse["unlabelled"]["why"] == []
    assert kept(entries) == {"be refused": "2 of 2 and 2 of 2", "pass": "1 of 1 and 1 of 1"}
    assert json.loads((tmp_path / "alarms.json").read_text()) == {"digits": entries}
    assert table(entries) in capsys.readouterr().out
    # what is recorded is not checked again
    written = (tmp_path / "digits" / "02").exists(), (tmp_path / "alarms.json").stat().st_mtime_ns
    assert main(words)["digits"] == entries
    assert ((tmp_path / "digits" / "02").exists(), (tmp_path / "alarms.json").stat().st_mtime_ns) == written
