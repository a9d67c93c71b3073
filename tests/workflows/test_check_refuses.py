"""Which candidates a check refuses on the real images alone, without any limit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffgen.comparison.opened_run import OpenedRun
from diffgen.config import CheckConfig, Limits, ModelSpec, Preprocessing
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.events import Event, Progress, StageStarted
from diffgen.gate.rules import Status
from diffgen.runs.folder import RunFolder
from diffgen.runs.pictures import png_bytes
from diffgen.types import Float32Array, ImageSet
from diffgen.workflows.check import check
from tests.recording import Recording
from tests.workflows.candidates import CLASSES, Candidates
from tests.workflows.conftest import untrained_generator


@pytest.mark.parametrize(
    ("name", "failing", "code"),
    [
        ("constant", {"smells", "accuracy_drop", "class_accuracy_drop", "regression_faults"}, 1),
        ("without_an_answer", {"smells", "undecided_real", "accuracy_drop", "regression_faults"}, 1),
        ("tied", {"undecided_real"}, 1),
        ("noisy", {"steadiness"}, 3),
        ("first_of_its_batch", {"steadiness"}, 3),
        ("another_order", {"smells", "accuracy_drop", "regression_faults"}, 1),
        ("sure_of_nothing", {"calibration_rise"}, 1),
        ("one_class_lost", {"accuracy_drop", "class_accuracy_drop"}, 1),
    ],
)
def test_without_any_limit_a_broken_candidate_does_not_pass(
    name: str,
    failing: set[str],
    code: int,
    model_files: dict[str, Path],
    quick: CheckConfig,
    tmp_path: Path,
    told: Callable[[str, str, object], None],
) -> None:
    candidate = getattr(Candidates(model_files["a_onnx"]), name)
    result = check(model_files["a"], candidate, data="digits:test", config=quick, output=tmp_path / "bad")
    assert result.exit_code == code
    broken = {each.name: each for each in result.conditions if each.status in (Status.FAIL, Status.ERROR)}
    assert failing <= set(broken)
    assert "smells" not in broken or "none of its classes" not in broken["smells"].sentence
    assert result.values.steadiness.margin <= 0.1
    if name == "first_of_its_batch":
        assert "another label when other images are in the batch" in broken["steadiness"].sentence
    if name == "noisy":
        assert "does not answer alike twice" in broken["steadiness"].sentence
        told("Checks", "a candidate that does not answer alike twice", broken["steadiness"].sentence)


@pytest.mark.parametrize("names", ["words", pytest.param("numbers", marks=pytest.mark.slow)])
def test_a_lost_class_is_seen_whatever_the_order_of_the_folders(
    names: str, model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    """Folders are numbered in the order of their names: words by the alphabet, numbers without the missing one."""
    digits = load("digits:test")
    assert digits.labels is not None
    words = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    own = dict(enumerate(words if names == "words" else map(str, range(CLASSES))))
    for row, (image, label) in enumerate(zip(digits.images, digits.labels.tolist(), strict=True)):
        if names == "words" or label != 8:
            folder = tmp_path / "data" / own[label]
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{row}.png").write_bytes(png_bytes(image))
    models = (ModelSpec(class_names=words), ModelSpec(class_names=words)) if names == "words" else ()
    config = replace(quick, compare=replace(quick.compare, models=models))
    candidate = Candidates(model_files["a_onnx"]).one_class_lost
    told = Recording()
    result = check(
        model_files["a"], candidate, data=tmp_path / "data", config=config, output=tmp_path / "run", events=told
    )
    assert result.status is Status.FAIL
    assert result.values["class_accuracy_drop"].name == own[4]
    assert result.values["accuracy_drop"].base_right > 0.9 * result.values["accuracy_drop"].of
    assert sum("are counted as model" in line for line in told.lines) == 1
    order = RunFolder.open(result.run).manifest["data"]["label_order"]
    assert order == ([8, 5, 4, 9, 1, 7, 6, 3, 2, 0] if names == "words" else [0, 1, 2, 3, 4, 5, 6, 7, 9])
    # whoever reads the run later counts them so too
    stored = OpenedRun(RunFolder.open(result.run), "cpu").data(None, purpose="look", progress=Progress())
    assert stored.labels is not None
    here = digits.labels[digits.labels != 8] if names == "numbers" else digits.labels
    assert np.array_equal(np.bincount(stored.labels), np.bincount(here))


@pytest.mark.parametrize(("ones", "refused"), [(0.5, True), (0.05, False)])
def test_of_two_classes_without_labels_one_alone_is_refused_where_the_base_gives_both(
    ones: float, refused: bool, model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    """A base that says 1 of hardly any image gives no reason to: a candidate that never does may be right."""
    digits = load("digits:test")
    bound = np.quantile(digits.images.mean(axis=(1, 2, 3)) / 255, 1 - ones)

    def base(images: np.ndarray) -> Float32Array:
        logits = (images.mean(axis=(1, 2, 3)) - bound) * 50
        return np.stack([-logits, logits], axis=1).astype(np.float32)

    def constant(images: np.ndarray) -> Float32Array:
        return np.tile(np.float32([2, 0]), (len(images), 1))

    data = ImageSet(digits.images, None, ("dark", "bright"), "digits by their ink")
    result = check(base, constant, data=data, config=quick, output=tmp_path / "run")
    failed = {each.name: each.sentence for each in result.conditions if each.status is Status.FAIL}
    assert ("smells" in failed) == refused
    # without labels nobody knows whether the images are what the model is for
    assert not refused or failed["smells"].endswith(", or the images are of none of its classes.")


def test_without_labels_another_order_of_the_classes_is_refused(
    model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    data = ImageSet(load("digits:test").images, None, (), "digits without labels")
    candidate = Candidates(model_files["a_onnx"]).another_order
    result = check(model_files["a"], candidate, data=data, config=quick, output=tmp_path / "run")
    failed = [each.name for each in result.conditions if each.status is Status.FAIL]
    assert failed == ["sure_disagreement_real", "class_disagreement_real"]
    allowed = replace(quick, limits=Limits(max_disagreement=1.0))
    result = check(model_files["a"], candidate, data=data, config=allowed, output=tmp_path / "allowed")
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("name", "class_name"),
    [("one_class_lost", "4"), pytest.param("two_classes_swapped", "3", marks=pytest.mark.slow)],
)
def test_without_labels_a_class_that_was_lost_is_refused(
    name: str, class_name: str, model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    """What the jury learns from agreed answers shows nothing of it, so that limits on faults are kept."""
    data = ImageSet(load("digits:test").images, None, (), "digits without labels")
    candidate = getattr(Candidates(model_files["a_onnx"]), name)
    limits = Limits(max_variation_faults=0.05)
    result = check(
        model_files["a"],
        candidate,
        data=data,
        config=replace(quick, variations=200, limits=limits),
        output=tmp_path / "run",
    )
    failed = {each.name: each.sentence for each in result.conditions if each.status is Status.FAIL}
    assert failed.keys() == {"sure_disagreement_real", "class_disagreement_real"}
    lost = result.values["class_disagreement_real"]
    assert lost is not None and lost.name == class_name and lost.share > 0.9
    assert f"what the base is sure is {class_name} otherwise" in failed["class_disagreement_real"]
    allowed = replace(quick, limits=Limits(max_disagreement=1.0))
    again = check(model_files["a"], candidate, data=data, config=allowed, output=tmp_path / "allowed")
    assert "class_disagreement_real" in {each.name for each in again.conditions if each.status is Status.PASS}


@pytest.mark.parametrize(
    ("name", "labels", "failing"),
    [
        pytest.param("wrong_at_random", False, {"sure_disagreement_real"}, marks=pytest.mark.slow),
        ("half_of_a_class_wrong", False, {"sure_disagreement_real", "class_disagreement_real"}),
        ("half_of_a_class_wrong", True, {"accuracy_drop", "class_accuracy_drop"}),
    ],
)
def test_a_candidate_that_is_wrong_on_few_images_is_refused(
    name: str, labels: bool, failing: set[str], model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    """An honest one calls hardly anything otherwise that the base is sure of."""
    digits = load("digits:test")
    data = digits if labels else ImageSet(digits.images, None, (), "digits without labels")
    candidate = getattr(Candidates(model_files["a_onnx"]), name)
    result = check(model_files["a"], candidate, data=data, config=quick, output=tmp_path / "run")
    assert {each.name for each in result.conditions if each.status is Status.FAIL} == failing


class Pairs:
    """A hundred classes: two digits side by side, and a base that reads each of them."""

    def __init__(self, model_file: Path, folder: Path) -> None:
        self._one = Candidates(model_file)
        digits = load("digits:test")
        assert digits.labels is not None
        rng = np.random.default_rng(0)
        left, right = (np.concatenate([rng.permutation(len(digits)) for _ in range(2)]) for _ in range(2))
        self.data = ImageSet(
            np.concatenate([digits.images[left], digits.images[right]], axis=3),
            10 * digits.labels[left] + digits.labels[right],
            tuple(f"{number:02d}" for number in range(100)),
            "pairs of digits",
        )
        self.generator = untrained_generator(folder / "pairs.pt", (1, 28, 56))

    def base(self, images: np.ndarray) -> Float32Array:
        left, right = (self._one._logits(part) for part in (images[..., :28], images[..., 28:]))
        return np.float32((left[:, :, None] + right[:, None, :]).reshape(len(images), 100))

    def forgetful(self, images: np.ndarray) -> Float32Array:
        logits = self.base(images).copy()
        logits[:, 47] = logits.min()
        return logits

    def coarse(self, images: np.ndarray) -> Float32Array:
        return np.float32(np.round(self.base(images) * 16) / 16)


def test_one_class_of_a_hundred_is_forgotten(model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path) -> None:
    """It costs less than a point over all classes; where it is named, it is in every file of the check."""
    pairs = Pairs(model_files["a_onnx"], tmp_path)
    config = replace(quick, compare=replace(quick.compare, generator=pairs.generator))
    honest = check(pairs.base, pairs.coarse, data=pairs.data, config=config, output=tmp_path / "honest")
    assert [each.name for each in honest.conditions if each.status is Status.FAIL] == []
    broken = check(pairs.base, pairs.forgetful, data=pairs.data, config=config, output=tmp_path / "broken")
    assert [each.name for each in broken.conditions if each.status is Status.FAIL] == ["class_accuracy_drop"]
    worst = broken.values["class_accuracy_drop"]
    assert worst is not None and (worst.label, worst.name, worst.classes) == (47, "47", 100)
    folder = tmp_path / "broken"
    for name in ("report.html", "junit.xml", "summary.md"):
        assert "Class 47 loses more than 10.00 points" in (folder / name).read_text()
    assert json.loads((folder / "results.json").read_text())["check"]["values"]["class_accuracy_drop"]["name"] == "47"


class Silent:
    """Answers NaN or infinity to some images, and what the base says to all others."""

    def __init__(self, model_file: Path, images: np.ndarray) -> None:
        self._logits, self._images = Candidates(model_file)._logits, images.astype(np.float32) / 255

    def base(self, images: np.ndarray) -> Float32Array:
        return self._logits(images.astype(np.float32) / 255)

    def __call__(self, images: np.ndarray) -> Float32Array:
        logits = self._logits(images).copy()
        for value, image in zip((np.nan, np.inf, -np.inf), self._images, strict=True):
            logits[(images == image).all(axis=(1, 2, 3)), 3] = value
        return logits


def test_a_candidate_without_an_answer_to_three_images_fails_and_names_them(
    model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    """The first of the images is among those that a model looks at first, the others are not."""
    data = load("digits:test")
    data = replace(data, names=tuple(f"val/{row}.png" for row in range(len(data))))
    assert data.labels is not None
    rows = [0, 1, int(np.flatnonzero(data.labels == 0)[-1])]  # without an answer nobody is right, on this class either
    silent = Silent(model_files["a_onnx"], data.images[rows])
    result = check(model_files["a"], silent, data=data, config=quick, output=tmp_path / "run")
    assert result.exit_code == 1
    assert [each.name for each in result.conditions if each.status is Status.FAIL] == ["unanswered_real"]
    sentence = next(each for each in result.conditions if each.name == "unanswered_real").sentence
    named = ", ".join(f"'val/{row}.png'" for row in rows)
    assert sentence == f"Model B (Silent) gives NaN or infinity for 3 of {len(data)} real images: {named}."
    unanswered, drop = result.values["unanswered_real"], result.values["accuracy_drop"]
    assert unanswered is not None and (unanswered.count, unanswered.only_base, unanswered.of) == (3, 0, len(data))
    right = silent.base(data.images[rows]).argmax(axis=1) == data.labels[rows]
    assert right[2] and drop is not None and drop.only_base == right.sum()
    for name in ("report.html", "junit.xml", "summary.md"):
        assert f"val/{rows[2]}.png" in (tmp_path / "run" / name).read_text()


def test_a_base_without_an_answer_to_some_images_is_a_warning(
    model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    data = load("digits:test")
    silent = Silent(model_files["a_onnx"], data.images[[0, 1, 301]])
    result = check(silent, model_files["a"], data=data, config=quick, output=tmp_path / "run")
    found = next(each for each in result.conditions if each.name == "unanswered_real")
    assert found.status is Status.WARN and "number 0, 1, 301, counted from 0." in found.sentence


def test_pictures_of_the_search_without_an_answer_are_in_the_verdict(
    model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    base, known = Candidates(model_files["a_onnx"]), {image.tobytes() for image in load("digits:test").images}

    def silent(images: np.ndarray) -> Float32Array:
        logits = base._logits(images).copy()
        pixels = np.round(images * 255).astype(np.uint8)
        logits[[image.tobytes() not in known and bool(image.any()) for image in pixels]] = np.nan
        return logits

    result = check(model_files["a"], silent, data="digits:test", config=quick, output=tmp_path / "run")
    found = next(each for each in result.conditions if each.name == "unanswered_real")
    assert found.status is Status.WARN and result.values["unanswered_real"] is None
    assert re.search(
        r"for [\d,]+ pictures that it was asked about later; on such a picture it disagrees", found.sentence
    )
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["warnings"].count(found.sentence) == 1


def test_an_honest_candidate_passes_without_any_limit(
    model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    """Logits in steps of a quarter, as 8 bits leave them: pictures that the search finds, and hardly anything else."""
    base = Candidates(model_files["a_onnx"])

    def coarse(images: np.ndarray) -> Float32Array:
        return np.float32(np.round(base._logits(images) * 4) / 4)

    result = check(model_files["a"], coarse, data="digits:test", config=quick, output=tmp_path / "run")
    assert result.exit_code == 0
    assert {each.name for each in result.conditions} == {
        "search",
        "steadiness",
        "smells",
        "undecided_real",
        "accuracy_drop",
        "class_accuracy_drop",
        "regression_faults",
        "calibration_rise",
    }


def test_a_value_left_out_as_the_background_is_not_the_answer(
    model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    """Guessed, it is refused; said, it fails the check: the second-best answer would be taken for the model's."""
    candidate = Candidates(model_files["a_onnx"]).background
    given: dict[str, Any] = {"data": "digits:test", "output": tmp_path / "run"}
    with pytest.raises(UserError, match=r"the last one.*is its answer to 100% of the real images; give models with"):
        check(model_files["a"], candidate, config=quick, **given)
    specs = (ModelSpec(), ModelSpec(preprocessing=Preprocessing(background="last")))
    said = replace(quick, compare=replace(quick.compare, models=specs))
    result = check(model_files["a"], candidate, config=said, **given)
    assert result.exit_code == 1
    smells = next(each for each in result.conditions if each.name == "smells")
    assert smells.status is Status.FAIL and "with the value for the background" in smells.sentence
    # its second-best answers are the base's, and count for nothing
    assert result.values["accuracy_drop"].candidate_right == 0


def test_a_second_check_into_one_folder_is_refused_before_it_asks(
    model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    """Also while the first one asks about the real images, when it has written nothing yet."""
    run, told, refused = tmp_path / "run", Recording(), []

    def begin_another(event: Event) -> None:
        if isinstance(event, StageStarted) and event.name == "Asking the models about the real images":
            with pytest.raises(UserError, match=r"run folder .*run is in use by process \d+") as caught:
                check(model_files["a"], model_files["b"], data="digits:test", config=quick, output=run, events=told)
            refused.append(caught.value)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(model_files["a"], model_files["b"], data="digits:test", config=quick, output=run, events=begin_another)
    asked = {*told.totals} - {"Opening the models"}
    assert len(refused) == 1 and not any("odels" in stage for stage in asked)
    assert not run.exists()
