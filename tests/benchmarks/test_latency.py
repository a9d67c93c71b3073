"""The benchmark of what a user waits for: seconds shared out among stages, first finds, a row a stage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.latency import table
from tests.benchmarks.conftest import Bench
from tests.benchmarks.test_recognised import HARDLY_TRAINED


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
