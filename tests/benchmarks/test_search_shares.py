"""The benchmark of what a search spends its time on: every second of it is shared out, and nothing else."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import pytest

from benchmarks.search_shares import PARTS, table
from diffgen.runs.folder import RunFolder
from tests.benchmarks.conftest import Bench
from tests.benchmarks.test_recognised import HARDLY_TRAINED


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_search_is_taken_apart(bench: Bench, tmp_path: Path) -> None:
    before = [owner.__dict__[name] for owner, name in chain.from_iterable(PARTS.values())]
    words = (tmp_path / "out", "--shared", ".", "--pairs", "digits", "--budget", "1500q", *HARDLY_TRAINED)
    said = bench("search_shares", *words)
    assert "\n| | digits, 1,500 queries |\n" in said
    (line,) = map(json.loads, (tmp_path / "out" / "shares.jsonl").read_text().splitlines())
    assert set(line["seconds"]) == set(PARTS) and min(line["seconds"].values()) > 0
    assert [owner.__dict__[name] for owner, name in chain.from_iterable(PARTS.values())] == before
    # what lies between generations, checkpoints above all, is no part of any
    whole = RunFolder.open(tmp_path / "out" / "runs" / "digits").results()["seconds"]
    assert 0.5 * whole < sum(line["seconds"].values()) < whole


def test_shares_are_of_the_whole_search() -> None:
    seconds = dict.fromkeys(PARTS, 1.0) | {"operators": 3.0}
    said = table([{"pair": "p", "queries": 100, "seconds": seconds}])
    assert "| operators | 27.3% |" in said and "| **forward: operators, models, jury** | 45.5% |" in said
    assert "| **forward and filters** | 54.5% |" in said and "| queries a second | 9 |" in said
