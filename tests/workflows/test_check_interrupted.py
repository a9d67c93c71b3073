"""A check that somebody interrupts is an error, says so, and goes on from there."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from diffgen.config import CheckConfig, CompareConfig, Limits
from diffgen.events import StopToken
from diffgen.gate.conditions import Status
from diffgen.workflows.check import check, resume_check
from tests.workflows.breaking import InSearch


@pytest.fixture(scope="module")
def config(small_config: CompareConfig) -> CheckConfig:
    limits = Limits(max_new_behaviours=0, max_accuracy_drop=1.0, max_regression_faults=1000)
    return CheckConfig(limits=limits, random_images=300, compare=small_config)


def record_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "results.json").read_text(encoding="utf-8"))["check"]


def test_an_interrupted_search_is_an_error(model_files: dict[str, Path], config: CheckConfig, tmp_path: Path) -> None:
    stop = StopToken()
    watch = InSearch(model_files["a"], stop.stop)
    result = check(
        model_files["a"],
        watch.candidate,
        data="digits:test",
        config=config,
        output=tmp_path / "cut",
        events=watch,
        stop=stop,
    )
    assert (result.status, result.exit_code) == (Status.ERROR, 3)
    assert "interrupted" in record_of(tmp_path / "cut")["values"]["search"]["problem"]
    assert result.report.name == "report.html"  # what was found until then is shown
    # base and candidate are one network, also to the rest of the search
    again = resume_check(result.run, candidate=watch.candidate, store=tmp_path / "store")
    assert (again.status, again.values.search.queries) == (Status.PASS, 600)
    assert record_of(tmp_path / "cut")["store"] == str(tmp_path / "store")


def test_ctrl_c_after_the_search_leaves_a_verdict_that_says_so(
    model_files: dict[str, Path], config: CheckConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diffgen.comparison.line.judge_triggers", lambda *a, **s: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        check(model_files["a"], model_files["b"], data="digits:test", config=config, output=tmp_path / "cut")
    assert record_of(tmp_path / "cut")["values"]["search"]["problem"] == "The check was interrupted."
    assert "The check was interrupted." in (tmp_path / "cut" / "summary.md").read_text(encoding="utf-8")
