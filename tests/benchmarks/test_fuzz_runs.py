"""Values of a run folder changed at random end in a sentence or work; benchmarks.fuzz_runs goes on longer."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from benchmarks.fuzz_runs import RUN, VERBS, attempt, main


def test_the_undamaged_run_is_read_by_all(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(RUN, tmp_path / "run"))
    for ask in VERBS.values():
        ask(copy)


@pytest.mark.parametrize("seed", [*range(1000, 1012), 5078])
def test_a_changed_value_is_no_traceback(seed: int) -> None:
    assert attempt(RUN, seed) == []


def test_it_says_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0.01"]) == 0
    assert re.search(r"[1-9]\d* runs damaged, 0 tracebacks", capsys.readouterr().out)
