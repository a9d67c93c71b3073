"""Answers in stages: each stands when the next one is not waited for, and what was left is gone on with."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.cli import main
from diffgen.comparison import preflight
from diffgen.comparison.preflight import balanced_order
from diffgen.config import Budget, CompareConfig, FilterConfig
from diffgen.data import load
from diffgen.events import Event, StageStarted, StopToken
from diffgen.models import load as load_model
from diffgen.origins import read_recipe
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import read_finished
from diffgen.sources.operators import OPERATORS
from diffgen.types import ImageSet
from diffgen.workflows.compare import compare
from diffgen.workflows.resume import resume
from tests.recording import Recording

CONFIG = CompareConfig(device="cpu", budget=Budget(queries=200))
LEARNS = "Training the jury"


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 100))
def test_the_first_of_a_balanced_order_stand_for_all(counts: list[int], first: int) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    order = balanced_order(ImageSet(np.zeros((len(labels), 1, 8, 8), dtype=np.uint8), labels, None, "ordered"))
    assert sorted(order.tolist()) == list(range(len(labels)))
    drawn = np.bincount(labels[order[:first]], minlength=len(counts))
    share = min(first, len(labels)) / len(labels)
    # each class as often as it occurs, but for what whole images leave over
    assert (np.abs(drawn - share * np.array(counts)) <= len(counts)).all()


@pytest.fixture(scope="module")
def whole(model_files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run"
    compare(model_files["a"], model_files["b"], data="digits:test", config=CONFIG, output=path)
    return path


def same_finds(one: Path, other: Path) -> None:
    tables = [RunFolder.open(path).read_judged() for path in (one, other)]
    np.testing.assert_array_equal(*(each.hashes for each in tables))
    np.testing.assert_array_equal(*(each.behaviours for each in tables))
    assert len(tables[0]) > 0
    assert RunFolder.open(one).config() == RunFolder.open(other).config()


@pytest.mark.parametrize("last", ["real", "variations"])
def test_a_run_ends_with_the_answer_that_was_asked_for(
    model_files: dict[str, Path], tmp_path: Path, whole: Path, last: str
) -> None:
    heard, path = Recording(), tmp_path / "run"
    given_models = model_files["a"], model_files["b"]
    config = replace(CONFIG, stop_after=last)
    result = compare(*given_models, data="digits:test", config=config, output=path, events=heard)
    assert [each.stage for each in result.answers] == ["real", "variations"][: 1 + (last == "variations")]
    assert LEARNS not in heard.totals and "Searching for disagreements" not in heard.totals
    assert result.queries == 0 and not result.interrupted and "--resume" in result.go_on
    answer = result.answers[-1].text
    interval = re.search(r"\(95%: [^)]*\)", answer)
    assert interval is not None and interval[0] in (path / "report.html").read_text(encoding="utf-8")
    assert list(read_finished(RunFolder.open(path)).answers.values())[-1] == answer
    if last == "variations":
        first = re.search(r"real image (\d+) shows (\d), and after (\S.*) A says (\d), B says (\d)\.$", answer)
        assert first is not None
        data, (row, shows, a, b) = load("digits:test"), map(int, first.group(1, 2, 4, 5))
        assert data.labels is not None and data.labels[row] == shows and a != b
        (step,) = read_recipe(first[3])
        assert step.operator in OPERATORS
        models = [load_model(each) for each in given_models]
        for model in models:
            model.prepare(data.images)
        one, other = (model.predict(data.images[[row]]).argmax() for model in models)
        assert one == other, "of those that differ as they are nothing new is said"
    again = resume(path)
    assert [each.stage for each in again.answers] == ["real", "variations", "search"]
    same_finds(path, whole)


def test_an_interruption_before_the_search_reports_what_is_there(
    model_files: dict[str, Path], tmp_path: Path, whole: Path
) -> None:
    stop, path = StopToken(), tmp_path / "run"

    def ends_it(event: Event) -> None:
        if isinstance(event, StageStarted) and event.name == "Finding how far operators may go":
            stop.stop()

    given_models = model_files["a"], model_files["b"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DIFFGEN_CACHE", str(tmp_path / "cache"))
        result = compare(*given_models, data="digits:test", config=CONFIG, output=path, events=ends_it, stop=stop)
    assert result.interrupted and result.queries == 0
    assert RunFolder.open(path).manifest["status"] == "interrupted"
    assert "The search has not begun" in (path / "report.html").read_text(encoding="utf-8")
    resume(path)
    same_finds(path, whole)


def test_a_slow_set_has_a_first_answer_before_its_end(
    model_files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if asking took long; what all images say is what it is when they are asked in their order."""
    monkeypatch.setattr(preflight, "_SOON", 0.0)
    monkeypatch.setattr(preflight, "_BATCH", (64, 64))
    heard, digits = Recording(), load("digits:test")
    config = replace(CONFIG, stop_after="real")
    given_models = model_files["a"], model_files["b"]
    result = compare(*given_models, data=digits, config=config, output=tmp_path / "run", events=heard)
    first = [line for line in heard.lines if line.startswith("First answer, from ")]
    assert len(first) == 1 and f"of {len(digits):,} real images" in first[0] and "accuracy A" in first[0]
    monkeypatch.undo()
    plain = compare(*given_models, data=digits, config=config, output=tmp_path / "plain")
    assert plain.answers[0].text.split(";")[0] == result.answers[0].text.split(";")[0]
    assert plain.accuracy == result.accuracy


def test_json_says_when_each_answer_stood(
    model_files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(model_files["a"]), str(model_files["b"]), "--data", "digits:test", "-o", str(tmp_path / "run")]
    assert main(["compare", *words, "--stop-after", "variations", "--json", "--quiet"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [each["stage"] for each in said["answers"]] == ["real", "variations"]
    assert 0 <= said["answers"][0]["seconds"] <= said["answers"][1]["seconds"]


def test_what_was_settled_later_is_kept(model_files: dict[str, Path], tmp_path: Path) -> None:
    """Also where the filters were named from the beginning: what screens the search was not known then."""
    path, filters = tmp_path / "run", FilterConfig(names=("ssim",))
    config = replace(CONFIG, stop_after="real", filters=filters)
    compare(model_files["a"], model_files["b"], data="digits:test", config=config, output=path)
    resume(path)
    kept = RunFolder.open(path).config()
    assert kept["search"]["screen"] == "both" and kept["stop_after"] == "search"
