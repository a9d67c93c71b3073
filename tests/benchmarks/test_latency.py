"""The benchmark of what a user waits for: seconds shared out among stages, first finds, a row a stage."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.latency import table
from benchmarks.stage_clock import OTHERWISE, START, StageClock
from tests.benchmarks.conftest import Bench
from tests.benchmarks.test_recognised import HARDLY_TRAINED


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


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_cold_and_a_warm_command(bench: Bench, tmp_path: Path) -> None:
    words = (tmp_path / "out", "--shared", ".", "--pairs", "digits", "--budget", "400q", *HARDLY_TRAINED)
    said = bench("latency", *words)
    assert "| digits, cold | digits, warm |" in said and "| **the search begins after** |" in said
    cold, warm = map(json.loads, (tmp_path / "out" / "latency.jsonl").read_text().splitlines())
    assert "Training the jury" in cold["spent"] and "Training the jury" not in warm["spent"]
    assert cold["queries"] == warm["queries"] == 400
    assert cold["first_trigger"] > cold["began"]["Searching for disagreements"][0]
    page = (tmp_path / "out" / "latency.md").read_text()
    assert said.endswith(page + "\n") and bench("latency", *words) == page + "\n"  # nothing is measured again
    assert table([]) == ""
