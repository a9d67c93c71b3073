"""Faults of a candidate that the base's own weakness, or how answers are read, must not hide."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from diffgen.config import Budget, CheckConfig, Limits, ModelSpec, Preprocessing
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.events import Event, StageStarted
from diffgen.gate.result import CheckResult
from diffgen.gate.rules import Condition, Status
from diffgen.types import Float32Array, ImageSet
from diffgen.workflows.check import check
from tests.workflows.candidates import CLASSES, Candidates

Model = Callable[[np.ndarray], Float32Array]


def condition(result: CheckResult, name: str) -> Condition:
    return next(each for each in result.conditions if each.name == name)


def says(labels: np.ndarray) -> Float32Array:
    """Logits that say these labels."""
    return np.float32(8 * np.eye(CLASSES)[labels])


@pytest.mark.parametrize(("base_share", "share", "status"), [(0.9, 1.0, "FAIL"), (0.59, 0.61, "WARN")])
def test_a_base_that_leans_to_one_class_hides_no_candidate_that_says_nothing_else(
    base_share: float, share: float, status: str, model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    """Without labels; a share that is a little above the threshold, where the base's is a little below, is no sign."""
    ink = load("digits:test").images.mean(axis=(1, 2, 3)) / 255

    def leaning(part: float) -> Model:
        bound = np.quantile(ink, part)

        def model(images: np.ndarray) -> Float32Array:
            mean = images.mean(axis=(1, 2, 3))
            return says(np.where(mean <= bound, 3, (mean * 1000).astype(int) % CLASSES))

        return model

    data = ImageSet(load("digits:test").images, None, (), "digits without labels")
    result = check(leaning(base_share), leaning(share), data=data, config=quick, output=tmp_path / "run")
    found = condition(result, "smells")
    assert found.status.value == status
    assert "Model B" in found.sentence or status == "WARN"


def test_of_two_classes_a_base_that_says_one_alone_is_refused(
    quick: CheckConfig, tmp_path: Path, told: Callable[[str, str, object], None]
) -> None:
    """Half of the images are right; with one image more they were not fewer than half."""
    digits = load("digits:test")
    assert digits.labels is not None
    data = ImageSet(digits.images[:500], np.arange(500) % 2, ("even", "odd"), "two classes")

    def constant(images: np.ndarray) -> Float32Array:
        return np.tile(np.float32([2, 0]), (len(images), 1))

    def guessing(images: np.ndarray) -> Float32Array:
        return np.float32(np.eye(2)[(images.sum(axis=(1, 2, 3)) * 255).round().astype(int) % 2])

    for case, base in (("a base of two classes that says one", constant), ("a base of two that guesses", guessing)):
        with pytest.raises(UserError, match="no candidate can be checked against such a base") as caught:
            check(base, constant, data=data, config=quick, output=tmp_path / "run")
        told("Checks", case, caught.value)
    assert not (tmp_path / "run").exists()


def test_logits_of_any_size_are_asked_how_sure_they_are(
    model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    """So large that each probability is 0 or 1, they are still no labels alone; of labels alone the row says so."""
    candidates = Candidates(model_files["a_onnx"])

    def often_wrong(images: np.ndarray) -> Float32Array:
        logits = candidates._logits(images).copy()
        third = (images.sum(axis=(1, 2, 3)) * 255).round().astype(int) % 3 == 0
        logits[third] = np.roll(logits[third], 1, axis=1)
        return logits / np.where(third, 50, 1)[:, None].astype(np.float32)

    def far_too_sure(images: np.ndarray) -> Float32Array:
        return often_wrong(images) * 1e6

    def labels_alone(images: np.ndarray) -> Float32Array:
        return np.float32(np.eye(CLASSES)[often_wrong(images).argmax(axis=1)])

    for candidate, status in ((far_too_sure, Status.FAIL), (labels_alone, Status.WARN)):
        result = check(often_wrong, candidate, data="digits:test", config=quick, output=tmp_path / candidate.__name__)
        assert condition(result, "calibration_rise").status is status
        assert result.values.labels_alone == (False, candidate is labels_alone)


def test_an_answer_beyond_the_classes_is_wrong(
    model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    """Few enough for the value to be taken for the background: no second-best answer makes these images right."""
    candidates = Candidates(model_files["a_onnx"])
    digits = load("digits:test")
    chosen = {image.tobytes() for image in digits.images[3:12]}

    def beyond(images: np.ndarray) -> Float32Array:
        logits = candidates._logits(images)
        pixels = np.round(images * 255).astype(np.uint8)
        wins = np.array([image.tobytes() in chosen for image in pixels])
        value = np.where(wins, logits.max(axis=1) + 5, logits.min(axis=1) - 5)
        return np.concatenate([logits, value[:, None]], axis=1).astype(np.float32)

    exact = replace(
        quick,
        limits=Limits(max_regression_faults=0),
        compare=replace(quick.compare, models=(ModelSpec(), ModelSpec(preprocessing=Preprocessing(background="last")))),
    )
    result = check(model_files["a_onnx"], beyond, data="digits:test", config=exact, output=tmp_path / "run")
    assert 7 <= result.values["regression_faults"].count <= 9
    assert condition(result, "regression_faults").status is Status.FAIL
    background = result.values["background_real"]
    assert background is not None and (background.count, background.only_base) == (9, 0)
    assert result.values["disagreement_real"].count == 9
    outputs = condition(result, "outputs")
    assert outputs.status is Status.WARN and outputs.sentence.startswith("The candidate answers with one value more")


@pytest.mark.parametrize("limits", [Limits(), Limits(max_shift=0.01)])
def test_logits_in_place_of_probabilities_do_not_pass_unsaid(
    limits: Limits, model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    """They become the same probabilities, so that no shift is seen."""
    logits = Candidates(model_files["a_onnx"])._logits

    def softmax(images: np.ndarray) -> Float32Array:
        return torch.from_numpy(logits(images)).softmax(dim=1).numpy()

    result = check(softmax, logits, data="digits:test", config=replace(quick, limits=limits), output=tmp_path / "run")
    assert result.status is (Status.WARN if limits.max_shift is None else Status.FAIL)
    assert result.values["shift_real"].largest < 0.01
    sentence = condition(result, "outputs").sentence
    assert sentence.startswith("The base answers with probabilities that sum to 1, the candidate with logits;")


def test_data_of_one_class_are_said_to_be(model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path) -> None:
    digits = load("digits:test")
    assert digits.labels is not None
    rows = digits.labels == 4
    data = ImageSet(digits.images[rows], digits.labels[rows], digits.class_names, "fours")
    result = check(model_files["a"], model_files["a_onnx"], data=data, config=quick, output=tmp_path / "run")
    assert result.status is Status.WARN and result.values.classes == (1, CLASSES)
    assert "show 1 of 10 classes; nothing is said of the others" in condition(result, "classes").sentence


class FromTheSearchOn:
    """Answers as the base until the search begins, by when every rate is measured, and negates the logits from then."""

    def __init__(self, model_file: Path) -> None:
        self._base, self._sign = Candidates(model_file), np.float32(1)

    def __call__(self, event: Event) -> None:
        if isinstance(event, StageStarted) and event.name == "Searching for disagreements":
            self._sign = np.float32(-1)

    def model(self, images: np.ndarray) -> Float32Array:
        return self._sign * self._base._logits(images)


class Leaking(nn.Module):
    """Each image that it has seen adds a little to a buffer, and the buffer to the logits of one class."""

    seen: torch.Tensor

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.seen += len(images) * 2e-5
        logits: torch.Tensor = self.network(images)
        return logits + self.seen * torch.eye(CLASSES)[3]


@pytest.mark.parametrize("wrong", [range(2, 8), range(65, 10_000)], ids=["small", "large"])
def test_a_candidate_that_is_wrong_in_batches_of_some_size_is_an_error(
    wrong: range, model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    """No real image gets another label alone than in the batches of 64 that it is usually in."""
    base = Candidates(model_files["a_onnx"])

    def candidate(images: np.ndarray) -> Float32Array:
        logits = base._logits(images)
        if len(images) in wrong:
            logits[min(wrong) - 2 :] *= -1
        return logits

    data = ImageSet(load("digits:test").images, None, (), "digits without labels")
    result = check(model_files["a_onnx"], candidate, data=data, config=quick, output=tmp_path / "run")
    assert [each.name for each in result.conditions if each.status is Status.ERROR] == ["steadiness"]
    found = condition(result, "steadiness").sentence
    assert re.search(r"gives 6\d of 64 real images \(\S+%\) another label when other images are in the batch", found)
    assert result.values["disagreement_real"].count == 0


@pytest.mark.parametrize("labelled", [True, False])
def test_answers_that_change_after_they_were_measured_are_an_error(
    labelled: bool, model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    digits, turns = load("digits:test"), FromTheSearchOn(model_files["a_onnx"])
    data = digits if labelled else ImageSet(digits.images, None, (), "digits without labels")
    result = check(model_files["a_onnx"], turns.model, data=data, config=quick, output=tmp_path / "run", events=turns)
    assert [each.name for each in result.conditions if each.status is Status.ERROR] == ["steadiness"]
    found = condition(result, "steadiness").sentence
    assert found.startswith("Model B (") and "no longer answers as it did at the beginning" in found
    assert "no longer answers" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_a_buffer_that_leaks_is_an_error(model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path) -> None:
    """So little with each image that asking twice shows nothing."""
    network = Leaking(torch.jit.load(str(model_files["a"]))).eval()

    def leaks(images: np.ndarray) -> Float32Array:
        with torch.inference_mode():
            return network(torch.from_numpy(images)).numpy()

    longer = replace(quick, compare=replace(quick.compare, budget=Budget(queries=4_000)))
    result = check(model_files["a"], leaks, data="digits:test", config=longer, output=tmp_path / "run")
    assert result.real is not None and result.real.numeric_noise < 0.01
    assert "no longer answers as it did at the beginning" in condition(result, "steadiness").sentence
    assert result.exit_code == 3
