"""Several runs counted as one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.together import Found, together
from tests.benchmarks.conftest import Bench


def test_what_both_found_counts_once() -> None:
    images = np.random.default_rng(0).integers(256, size=(4, 1, 28, 28), dtype=np.uint8)
    labels, cells = np.array([[1, 2], [1, 2], [3, 4], [5, 6]]), np.array([0, 7, 0, 0])
    first, second = (
        Found(100, images[rows], labels[rows], cells[rows], counted=np.array([True, False]))
        for rows in (slice(0, 2), slice(2, 4))
    )
    assert together([first]) == "100 | 2 | 0% | 1 | 0%"
    assert together([first, second]) == "200 | 4 | 0% | 2 | 0%"
    assert together([first, first]) == "200 | 2 | 50% | 1 | 50%"


@pytest.mark.slow
def test_runs_are_read_and_judged(bench: Bench, small_run: Path, tmp_path: Path) -> None:
    said = bench("together", "digits", small_run, small_run, "--made", tmp_path)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in said.splitlines() if line.startswith("|")]
    first, second, both = rows[2:]
    assert first[:2] == [small_run.name, "200"] and first == second and both[:2] == ["together", "400"]
    assert (both[2], both[4]) == (first[2], first[4])
