"""``--jury MODEL``: a classifier of the user's own says what pictures show."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.comparison.opened_run import OpenedRun
from diffgen.comparison.stages import CompareResult
from diffgen.config import Budget, CompareConfig, replace
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.events import Event, Progress, StageStarted, StopToken
from diffgen.models import load as load_model
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import read_finished
from diffgen.types import ImageSet
from diffgen.workflows.compare import compare
from diffgen.workflows.demo import dense_classifier, save_onnx, train_classifier
from diffgen.workflows.resume import resume
from tests.recording import Recording
from tests.workflows.breaking import assert_same


@pytest.fixture(scope="module")
def third(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier that is none of those under test, and not as good."""
    file = tmp_path_factory.mktemp("jury") / "third.onnx"
    save_onnx(train_classifier(dense_classifier(10), load("digits:train"), seed=5, passes=3), file)
    return file


@pytest.fixture(scope="module")
def judged(
    model_files: dict[str, Path], third: Path, small_config: CompareConfig, tmp_path_factory: pytest.TempPathFactory
) -> tuple[CompareResult, Recording]:
    said = Recording()
    config = replace(small_config, budget=Budget(queries=300))
    files, run = (model_files["a"], model_files["b"]), tmp_path_factory.mktemp("runs") / "run"
    return compare(*files, data="digits:test", config=config, jury=third, output=run, events=said), said


def test_nothing_is_trained_and_pictures_are_named_by_it(judged: tuple[CompareResult, Recording], third: Path) -> None:
    result, said = judged
    folder = RunFolder.open(result.run)
    stages = {each.name for each in said.events if isinstance(each, StageStarted)}
    assert "Searching for disagreements" in stages
    assert not stages & {"Training the jury", "Finding how far operators may go"}
    figures = read_finished(folder).jury
    assert figures is not None and figures.trained_on == 0 and "the classifier that was given" in str(figures)
    assert result.faults is not None and "a classifier that was given" in Path(result.run, "report.html").read_text()
    triggers = folder.read_judged()
    images = triggers.image_column.at(np.flatnonzero(triggers.recognised))
    model = load_model(third)
    model.prepare(load("digits:test").images)
    assert len(images) > 0
    np.testing.assert_array_equal(model.predict(images).argmax(axis=1), triggers.known.named[triggers.recognised])


def test_a_run_finds_its_jury_again_and_no_other(
    judged: tuple[CompareResult, Recording], third: Path, model_files: dict[str, Path], tmp_path: Path, digits: ImageSet
) -> None:
    opened = OpenedRun(RunFolder.open(shutil.copytree(judged[0].run, tmp_path / "run")))
    split, pictures = DataSplit(digits, opened.config.split), torch.from_numpy(digits.images[:50])
    before = opened.recogniser(split, Progress())
    assert before is not None and before.read(pictures).named.shape == (50,)
    object.__setattr__(opened.config, "jury", str(model_files["b"]))
    with pytest.raises(UserError, match="has changed since the run"):
        opened.recogniser(split, Progress())


def test_an_interrupted_run_goes_on_with_its_jury_and_no_other(
    judged: tuple[CompareResult, Recording],
    third: Path,
    model_files: dict[str, Path],
    small_config: CompareConfig,
    tmp_path: Path,
    told: Callable[[str, str, object], None],
) -> None:
    stop, jury, config = StopToken(), tmp_path / "jury.onnx", replace(small_config, budget=Budget(queries=300))
    shutil.copy(third, jury)
    files, run = (model_files["a"], model_files["b"]), tmp_path / "run"

    def stop_in_the_search(event: Event) -> None:
        if isinstance(event, StageStarted) and event.name == "Searching for disagreements":
            stop.stop()

    broken = compare(
        *files, data="digits:test", config=config, jury=jury, output=run, stop=stop, events=stop_in_the_search
    )
    assert broken.interrupted
    shutil.copy(model_files["b"], jury)
    with pytest.raises(UserError, match="is model B of the run"):
        resume(run)
    save_onnx(train_classifier(dense_classifier(10), load("digits:train"), seed=6, passes=3), jury)
    with pytest.raises(UserError) as refused:
        resume(run)
    told("`compare --jury`", "a run that goes on, whose jury is now another", refused.value)
    shutil.copy(third, jury)
    again = resume(run)
    assert not again.interrupted
    assert_same(again.run, judged[0].run)


@pytest.mark.parametrize(
    ("case", "jury", "words"),
    [
        ("the jury is model A", "a", "is model A of the run"),
        ("the jury is model A in another format", "a_onnx", "gives the very answers of model A"),
        ("the jury is no file", "nowhere.onnx", "does not exist"),
        ("the jury is an address", "http://localhost:8000/v2/models/jury", "--jury takes a file"),
    ],
)
def test_what_cannot_be_the_jury_is_refused(
    case: str,
    jury: str,
    words: str,
    model_files: dict[str, Path],
    small_config: CompareConfig,
    tmp_path: Path,
    told: Callable[[str, str, object], None],
) -> None:
    files, named = (model_files["a"], model_files["b"]), model_files.get(jury, jury)
    with pytest.raises(UserError, match=words) as refused:
        compare(*files, data="digits:test", config=small_config, jury=named, output=tmp_path / "run")
    told("`compare --jury`", case, refused.value)
    assert not (tmp_path / "run").exists()


def test_one_that_names_too_little_is_refused(
    model_files: dict[str, Path], small_config: CompareConfig, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    jury = tmp_path / "untrained.onnx"
    save_onnx(dense_classifier(10), jury)
    files = model_files["a"], model_files["b"]
    with pytest.raises(UserError, match="898 real images right, and is wrong too often where it is sure"):
        compare(*files, data="digits:test", config=small_config, jury=jury, output=tmp_path / "run")
