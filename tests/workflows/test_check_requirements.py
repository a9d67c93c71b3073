"""What a check refuses before anything is computed, and a base that it refuses to check against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.comparison.opened_run import OpenedRun
from diffgen.config import CheckConfig, CompareConfig, Limits, ModelSpec, Preprocessing
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.gate.rules import Status
from diffgen.runs.folder import RunFolder
from diffgen.testing import assert_no_regression
from diffgen.types import Float32Array, ImageSet
from diffgen.workflows.check import check
from diffgen.workflows.compare import compare
from tests.recording import Recording
from tests.workflows.candidates import CLASSES, Candidates


def test_limits_may_be_keywords(model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path) -> None:
    limited = replace(quick, limits=Limits(max_accuracy_drop=0.5, max_shift=1.0))
    given: dict[str, Any] = {"data": "digits:test", "config": limited, "output": tmp_path / "run"}
    models = model_files["a"], model_files["a_onnx"]
    for wrong, part in (({"max_accuracy_drop": 5}, "is 5"), ({"max_accuracy_dorp": 0.1}, "mean max_accuracy_drop")):
        with pytest.raises(UserError, match=part):
            check(*models, **given, **wrong)
    assert not (tmp_path / "run").exists()
    result = check(*models, **given, max_accuracy_drop="1%", max_new_behaviours=3, max_regression_faults=None, seed=4)
    found = {each.name: each.limit for each in result.conditions}
    assert (found["accuracy_drop"], found["new_behaviours"]) == ("1.00 points", "3")
    # what is not named is as before
    assert (found["shift_real"], found["regression_faults"]) == ("1", "10.00% by default")
    assert OpenedRun(RunFolder.open(result.run), "cpu").config.seed == 4


@pytest.mark.parametrize("config", [{"limits": {}}, CompareConfig()])
def test_settings_of_another_class_are_refused_in_one_sentence(
    config: Any, model_files: dict[str, Path], tmp_path: Path
) -> None:
    models, given = (model_files["a"], model_files["b"]), {"data": "digits:test", "output": tmp_path / "run"}
    for verb in (check, assert_no_regression):
        with pytest.raises(UserError, match=r"^config= is a \w+, but it takes a diffgen\.CheckConfig; [^.]*\.$"):
            verb(*models, config=config, **given)
    with pytest.raises(UserError, match=r"takes a diffgen\.CompareConfig"):
        compare(*models, config=CheckConfig() if isinstance(config, CompareConfig) else config, **given)
    assert not (tmp_path / "run").exists()


def test_a_base_that_only_guesses_is_refused(
    model_files: dict[str, Path],
    quick: CheckConfig,
    tmp_path: Path,
    told: Callable[[str, str, object], None],
) -> None:
    """Fed wrongly alike, no candidate is worse than its base, and every limit is kept."""
    digits = load("digits:test")
    assert digits.labels is not None
    moved = ImageSet(digits.images, (digits.labels + 1) % CLASSES, None, "digits in another order")
    dark = ModelSpec(preprocessing=Preprocessing(mean=(9.0,), std=(0.01,)))
    misfed = replace(quick, compare=replace(quick.compare, models=(dark, dark)))
    for case, data, config in (
        ("a base that is right on no more images than by guessing", moved, quick),
        ("a base that is fed wrongly", digits, misfed),
    ):
        with pytest.raises(UserError, match="no candidate can be checked against such a base") as caught:
            check(model_files["a"], model_files["b"], data=data, config=config, output=tmp_path / "run")
        assert not (tmp_path / "run").exists()
        told("Checks", case, caught.value)
    # as the sentence advises
    unlabelled = replace(quick, compare=replace(quick.compare, data_labels="ignore"))
    result = check(model_files["a"], model_files["a"], data=moved, config=unlabelled, output=tmp_path / "run")
    assert result.values["accuracy_drop"] is None and result.exit_code == 0


def test_a_base_that_is_poor_is_checked_against_with_a_warning(
    model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    candidates = Candidates(model_files["a_onnx"])

    def right_on_four_classes(images: np.ndarray) -> Float32Array:
        logits = candidates._logits(images)
        wrong = logits.argmax(axis=1) >= 4
        logits[wrong] = np.roll(logits[wrong], 1, axis=1)
        return logits

    result = check(right_on_four_classes, model_files["a"], data="digits:test", config=quick, output=tmp_path / "run")
    accuracy = result.values["accuracy_drop"]
    assert accuracy is not None and 0.3 < accuracy.base_right / accuracy.of < 0.5
    assert next(each.status for each in result.conditions if each.name == "smells") is Status.WARN


def test_labels_are_not_left_out_unasked(
    model_files: dict[str, Path],
    quick: CheckConfig,
    tmp_path: Path,
    told: Callable[[str, str, object], None],
) -> None:
    """Without them no accuracy is checked: a candidate that is right on nothing would pass."""
    digits = load("digits:test")
    assert digits.labels is not None
    candidate = Candidates(model_files["a_onnx"]).another_order
    one = digits.labels.copy()
    one[5] = CLASSES
    lacking = tuple("abcdefgh"), np.minimum(digits.labels, 7)
    for (names, labels), part, case in (
        ((None, one), "leave those images out", "one label that is none of the models'"),
        ((None, digits.labels + CLASSES), "no accuracy is checked", "labels that are none of the models'"),
        (lacking, "shifts the labels", "a folder less than the models have classes"),
    ):
        data = ImageSet(digits.images, labels, names, "digits of others")
        with pytest.raises(UserError, match=part) as caught:
            check(model_files["a"], candidate, data=data, config=quick, output=tmp_path / "run")
        assert not (tmp_path / "run").exists()
        told("Checks", case, caught.value)
    asked = replace(quick, compare=replace(quick.compare, data_labels="ignore"))
    data = ImageSet(digits.images, digits.labels + CLASSES, None, "digits of others")
    result = check(model_files["a"], model_files["a"], data=data, config=asked, output=tmp_path / "run")
    assert result.values["accuracy_drop"] is None and result.exit_code == 0


UNUSABLE: list[tuple[str, dict[str, Any], str]] = [
    ("a limit on accuracy without labels", {"limits": Limits(max_accuracy_drop=0.1)}, "needs labels"),
    ("a limit on the worst class without labels", {"limits": Limits(max_class_accuracy_drop=0.1)}, "needs labels"),
    ("a limit on regression faults without labels", {"limits": Limits(max_regression_faults=1)}, "needs labels"),
    ("a GAN that is not there", {"gan": "nowhere.safetensors"}, "train-gan"),
    ("a GAN that is a model", {"gan": "@a"}, "cannot be read"),
    ("a store that is a model", {"store": "@a"}, "name a folder"),
    ("a store of other pictures", {"store": "@colour"}, "3x8x6"),
]


@pytest.mark.parametrize(("case", "given", "part"), UNUSABLE, ids=[case for case, _, _ in UNUSABLE])
def test_what_cannot_be_is_said_before_anything_is_computed(
    case: str,
    given: dict[str, Any],
    part: str,
    model_files: dict[str, Path],
    tmp_path: Path,
    told: Callable[[str, str, object], None],
) -> None:
    from diffgen.runs.store import StoredBehaviour, add_to_store

    colour = np.random.default_rng(0).integers(256, size=(1, 3, 8, 6), dtype=np.uint8)
    add_to_store(tmp_path / "colour", [StoredBehaviour((1, 2), ("1", "2"), colour, {})])
    places = {"@a": model_files["a"], "@colour": tmp_path / "colour"}
    given = {name: places.get(value, value) if isinstance(value, str) else value for name, value in given.items()}
    limits = given.pop("limits", Limits())
    images = load("digits:test").images
    with pytest.raises(UserError, match=part) as caught:
        check(
            model_files["a"],
            model_files["b"],
            data=images,
            config=CheckConfig(limits=limits),
            output=tmp_path / "run",
            **given,
        )
    assert not (tmp_path / "run").exists()
    told("Checks", case, caught.value)


def test_a_model_of_several_labels_is_refused(
    model_files: dict[str, Path],
    quick: CheckConfig,
    tmp_path: Path,
    told: Callable[[str, str, object], None],
) -> None:
    """One sigmoid for each class: the highest of several that are 1 is the first of them."""
    logits = Candidates(model_files["a_onnx"])._logits

    def sigmoids(images: np.ndarray) -> Float32Array:
        said = torch.from_numpy(logits(images))
        return torch.sigmoid(10 * (said - said.mean(dim=1, keepdim=True))).numpy()

    given: dict[str, Any] = {"data": "digits:test", "output": tmp_path / "run"}
    with pytest.raises(UserError, match="values near 1 to several classes of one image") as caught:
        check(model_files["a"], sigmoids, config=quick, **given)
    told("Checks", "a model of several labels", caught.value)
    assert not (tmp_path / "run").exists()
    with pytest.raises(UserError, match="Model A"):
        check(sigmoids, model_files["a"], config=quick, **given)
    warned = Recording()
    compare(model_files["a"], sigmoids, config=quick.compare, events=warned, **given)
    assert sum("Model B (sigmoids) gives values near 1" in line for line in warned.warnings) == 1
    specs = (ModelSpec(), ModelSpec(preprocessing=Preprocessing(outputs="scores")))
    said = replace(quick, compare=replace(quick.compare, models=specs))
    assert check(model_files["a"], sigmoids, config=said, force=True, **given).values["disagreement_real"] is not None
