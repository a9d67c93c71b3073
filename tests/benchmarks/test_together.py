"""Several runs counted as one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.together import Found, together
from tests.benchmarks.conftest import Bench


def test_what_both_found_counts_once() -> None:
    first = Found(100, np.array([[1, 2, 0], [1, 2, 7]]), np.array([True, False]), np.array([True, True]))
    second = Found(50, np.array([[1, 2, 7], [5, 6, 0]]), np.array([True, True]), np.array([False, True]))
    assert together([first]) == "100 | 1 | 2 | 1"
    assert together([first, second]) == "150 | 3 | 3 | 2"
    assert together([first, first]) == "200 | 1 | 2 | 1"


@pytest.mark.slow
def test_runs_are_read_and_judged(bench: Bench, small_run: Path, tmp_path: Path) -> None:
    said = bench("together", "digits", small_run, small_run, "--made", tmp_path)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in said.splitlines() if line.startswith("|")]
    first, second, both = rows[2:]
    assert first[:2] == [small_run.name, "200"] and first == second and both[:2] == ["together", "400"]
    assert both[2:] == first[2:]
