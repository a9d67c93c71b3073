"""The golden runs: made, compared, killed and resumed, and a difference is seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import golden


def test_differences_are_named() -> None:
    before = {"triggers": 3, "columns": {"images": "a", "query": "b"}, "results": {"queries": 5}}
    assert golden.differences(before, before) == []
    now = {"triggers": 3, "columns": {"images": "c", "extra": "d"}, "results": {"queries": 5}}
    assert golden.differences(before, now) == [
        'columns/images: "a" before, "c" now',
        'columns/query: "b" before, null now',
        'columns/extra: null before, "d" now',
    ]
    assert golden.differences(None, now)


@pytest.mark.slow  # encoder and filters of the digits are trained
def test_a_run_of_200_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DIFFGEN_CACHE", "")  # main() sets it; taken back afterwards
    monkeypatch.delenv("DIFFGEN_SHARED", raising=False)
    words = [str(tmp_path), "--queries", "200", "--only", "digits-dflare"]
    assert golden.main(["make", *words]) == 0
    assert golden.main(["compare", *words]) == 0
    assert golden.main(["compare", "--killed", *words]) == 0
    assert capsys.readouterr().out.count("digits-dflare-default: equal") == 2
    record = tmp_path / "golden.json"
    known = json.loads(record.read_text())
    known["digits-dflare-default"]["columns"]["images"] = "other"
    record.write_text(json.dumps(known))
    assert golden.main(["compare", *words]) == 1
    assert 'columns/images: "other" before' in capsys.readouterr().out
