"""Values of a run folder changed at random end in a sentence or work; benchmarks.fuzz_runs goes on longer."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.fuzz_runs import VERBS, attempt, main


def test_the_undamaged_run_is_read_by_all(take: Callable[[str, Path], Path], tmp_path: Path) -> None:
    copy = take("done", tmp_path / "run")
    for ask in VERBS.values():
        ask(copy)


@pytest.mark.parametrize("seed", [*range(1000, 1012), 5078])
def test_a_changed_value_is_no_traceback(done_run: Path, seed: int) -> None:
    assert attempt(done_run, seed) == []


def test_it_says_how_many(done_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(done_run), "--seconds", "0.01"]) == 0
    assert re.search(r"[1-9]\d* runs damaged, 0 tracebacks", capsys.readouterr().out)
