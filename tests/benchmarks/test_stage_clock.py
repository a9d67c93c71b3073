"""The clock of stages: a command whose seconds and memory it tells, and that none is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.stage_clock import OTHERWISE, START, StageClock


@given(st.lists(st.tuples(st.sampled_from(["started", "ended"]), st.sampled_from("abc"), st.floats(0, 9)), max_size=12))
def test_no_second_is_lost_or_counted_twice(heard: list[tuple[str, str, float]]) -> None:
    clock, now = StageClock((100.0, 0.0)), 100.0
    for change, name, pause in heard:
        now += pause
        clock.hear(change, name, (now, 2 * (now - 100)))
    clock.end((now + 1, 2 * (now + 1 - 100)))
    clock_seconds, processor_seconds = np.sum(list(clock.spent.values()), axis=0)
    assert clock_seconds == pytest.approx(now + 1 - 100) and processor_seconds == pytest.approx(2 * clock_seconds)


def test_seconds_belong_to_the_innermost_stage() -> None:
    clock = StageClock((0.0, 0.0))
    for change, name, at in (
        ("started", "search", 3.0),
        ("started", "GAN", 4.0),
        ("ended", "GAN", 9.0),
        ("ended", "search", 10.0),
    ):
        clock.hear(change, name, (at, at))
    clock.end((12.0, 12.0))
    assert {name: both[0] for name, both in clock.spent.items()} == {
        START: 3.0,
        "search": 2.0,
        "GAN": 5.0,
        OTHERWISE: 2.0,
    }
    assert clock.began == {"search": (3.0, 3.0), "GAN": (4.0, 4.0)}


def test_a_command(repository: Path, tmp_path: Path) -> None:
    """In a process of its own, as it listens to all that is told from then on; one that is refused is told of, too."""
    words = ["compare", "none.onnx", "none.onnx", "--data", "digits"]
    command = [sys.executable, "-m", "benchmarks.stage_clock", tmp_path / "out.json", str(time.time()), *words]
    assert subprocess.run(command, cwd=repository, capture_output=True).returncode == 2
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["exit_code"] == 2 and found["spent"].keys() == found["highest"].keys()
    assert min(*found["spent"][START], found["highest"][START][0]) > 0
