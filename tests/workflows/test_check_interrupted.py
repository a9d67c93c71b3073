"""A check whose search ends before its budget: an error where it was cut short, none where all was asked about."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffgen.config import Budget, CheckConfig, CompareConfig, Limits, ModelSpec, Opening, RemoteConfig, replace
from diffgen.events import StopToken
from diffgen.gate.rules import Status
from diffgen.techniques.random_latent import RandomLatent
from diffgen.types import ImageSet
from diffgen.workflows.check import check, resume_check
from tests.models.remote.oip_server import OipServer, onnx_model
from tests.workflows.breaking import InSearch


@pytest.fixture(scope="module")
def config(small_config: CompareConfig) -> CheckConfig:
    limits = Limits(max_new_behaviours=0, max_accuracy_drop=1.0, max_regression_faults=1000)
    return CheckConfig(limits=limits, random_images=300, compare=small_config)


def record_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "results.json").read_text(encoding="utf-8"))["check"]


def test_an_interrupted_search_is_an_error(
    model_files: dict[str, Path], config: CheckConfig, digits: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert digits.labels is not None
    np.savez("digits.npz", images=digits.images, labels=digits.labels)
    stop = StopToken()
    watch = InSearch(model_files["a"], stop.stop)
    result = check(
        model_files["a"],
        watch.candidate,
        data="digits.npz",
        config=config,
        output=tmp_path / "cut",
        events=watch,
        stop=stop,
    )
    assert (result.status, result.exit_code) == (Status.ERROR, 3)
    assert "interrupted" in record_of(tmp_path / "cut")["values"]["search"]["problem"]
    assert result.report.name == "report.html"  # what was found until then is shown
    # base and candidate are one network, also to the rest of the search
    monkeypatch.chdir(tmp_path.parent)
    again = resume_check(result.run, candidate=watch.candidate, store=tmp_path / "store")
    assert record_of(tmp_path / "cut")["data"] == "digits.npz"  # as it was given
    assert (again.status, again.values.search.queries) == (Status.PASS, 600)
    assert record_of(tmp_path / "cut")["store"] == str(tmp_path / "store")


def test_ctrl_c_after_the_search_leaves_a_verdict_that_says_so(
    model_files: dict[str, Path], config: CheckConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diffgen.comparison.stages.judge_triggers", lambda *a, **s: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        check(model_files["a"], model_files["b"], data="digits:test", config=config, output=tmp_path / "cut")
    assert record_of(tmp_path / "cut")["values"]["search"]["problem"] == "The check was interrupted."
    assert "The check was interrupted." in (tmp_path / "cut" / "summary.md").read_text(encoding="utf-8")


def test_a_search_cut_short_by_the_candidates_own_query_budget_is_an_error(
    model_files: dict[str, Path], config: CheckConfig, tmp_path: Path
) -> None:
    limited = ModelSpec(opening=Opening(remote=RemoteConfig(query_budget=1_700)))
    short = replace(config, variations=0, compare=replace(config.compare, models=(ModelSpec(), limited)))
    with OipServer({"a": onnx_model(model_files["a_onnx"])}, binary=True) as server:
        address = f"http://127.0.0.1:{server.port}/v2/models/a"
        result = check(model_files["a"], address, data="digits:test", config=short, output=tmp_path / "short")
    assert 0 < result.values.search.queries < 600
    assert "no more images" in result.values.search.problem
    assert result.status is Status.ERROR


class Short(RandomLatent):
    """Has nothing more to ask about after its first batch."""

    @property
    def finished(self) -> bool:
        return self._batches > 0


def test_a_technique_that_has_asked_about_everything_has_come_to_its_end(
    model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    long = replace(quick, compare=replace(quick.compare, budget=Budget(queries=10_000)))
    models = model_files["a"], model_files["a_onnx"]
    result = check(*models, data="digits:test", technique=Short, config=long, output=tmp_path / "run")
    assert 0 < result.values.search.queries < 10_000
    assert (result.values.search.problem, result.exit_code) == ("", 0)
