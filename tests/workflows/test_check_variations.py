"""Rates that no search has chosen: base and candidate on random variations of the real images, and random pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from diffgen.config import CheckConfig, CompareConfig, Limits
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.events import Event, StageEnded, StageStarted
from diffgen.gate.rules import Status
from diffgen.metrics.counting import ACCEPTED, CONFIRMED_SINGLE
from diffgen.models import load as load_model
from diffgen.runs.results import recognised_figures
from diffgen.runs.triggers import TriggerTable, Verdicts
from diffgen.types import Float32Array, ImageSet
from diffgen.workflows.check import check
from diffgen.workflows.check_stages import found_by_search
from tests.recording import Recording


@pytest.fixture(scope="module")
def quick(quick_check: CheckConfig) -> CheckConfig:
    """With a short search: what is tested rests on the variations."""
    return replace(quick_check, variations=300)


class LearntByHeart:
    """Answers as the base does to the very images of the data, and knows nothing else."""

    def __init__(self, base: Path) -> None:
        images = load("digits:test").images
        model = load_model(base, device="cpu")
        model.prepare(images)
        logits = model.raw_outputs(images)
        self._known = {image.tobytes(): row for image, row in zip(images, logits, strict=True)}
        self._guess = np.float32([0, 4, 0, 0, 0, 0, 0, 0, 0, 0])

    def __call__(self, pixels: np.ndarray) -> Float32Array:
        images = np.round(pixels * 255).astype(np.uint8)
        return np.stack([self._known.get(image.tobytes(), self._guess) for image in images])


def test_a_candidate_that_knows_the_real_images_by_heart_does_not_pass(
    model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    base = model_files["a_onnx"]
    result = check(base, LearntByHeart(base), data="digits:test", config=quick, output=tmp_path / "run")
    assert result.values["disagreement_real"].count == 0
    failing = {each.name for each in result.conditions if each.status is Status.FAIL}
    assert {"variation_faults", "variation_drop"} <= failing
    assert result.exit_code == 1


def test_the_same_model_has_no_faults_on_variations_and_the_same_seed_draws_the_same_ones(
    model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    first, second = (
        check(model_files["a"], model_files["a_onnx"], data="digits:test", config=quick, output=tmp_path / name)
        for name in "xy"
    )
    variations = first.values["variation_drop"]
    assert variations is not None and variations.of == 300 and variations.only_base == 0
    assert first.values.varied >= 300
    # most of them keep their label, for the base too
    assert variations.base_right > 0.8 * variations.of
    assert (second.values["variation_drop"], second.values.varied) == (variations, first.values.varied)


def test_no_image_is_varied_twice_and_none_can_be_asked_for(
    model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    count, heard = len(load("digits:test").images), Recording()
    many = check(
        model_files["a"],
        model_files["a_onnx"],
        data="digits:test",
        config=replace(quick, variations=10 * count),
        output=tmp_path / "many",
        events=heard,
    )
    # they take as long as the questions about them, where images are large
    made = heard.reached("Making variations of real images")
    assert len(made) > 1 and made[-1] == heard.totals["Making variations of real images"] == count
    assert many.values["variation_drop"] is not None
    assert many.values.varied == count and 0.5 * count < many.values["variation_drop"].of <= count
    none = check(
        model_files["a"],
        model_files["a_onnx"],
        data="digits:test",
        config=replace(quick, variations=0),
        output=tmp_path / "none",
    )
    assert none.values["variation_drop"] is None and none.exit_code == 0


def test_limits_that_need_a_jury_or_variations_are_refused_without_before_anything_is_written(
    model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path, told: Callable[[str, str, object], None]
) -> None:
    digits = load("digits:test")
    few = ImageSet(digits.images[:80], None, None, "few digits")
    given = model_files["a"], model_files["a_onnx"]
    for limits in (Limits(max_new_faults=0), Limits(max_variation_faults=0.01)):
        with pytest.raises(UserError, match="needs a jury that says who is wrong") as caught:
            check(*given, data=few, config=replace(quick, limits=limits), output=tmp_path / "run")
    told("Checks", "a limit that needs a jury, and images too few for one", caught.value)
    config = replace(quick, variations=0, limits=Limits(max_variation_faults=0.01))
    with pytest.raises(UserError, match="--variations is 0") as none:  # before data are read
        check(*given, data=tmp_path / "missing", config=config, output=tmp_path / "run")
    told("Checks", "a limit on variations of which there are none", none.value)
    assert not (tmp_path / "run").exists()


def test_a_fault_on_a_near_duplicate_is_one_of_the_behaviour() -> None:
    """As among the figures of the run: of pictures that repeat each other the one counts that the jury recognises."""
    images = np.arange(4 * 64, dtype=np.uint8).reshape(4, 1, 8, 8)
    answers = np.tile(np.float32([[[0.9, 0.1], [0.2, 0.8]]]), (4, 1, 1))
    verdicts = Verdicts(
        scores=np.zeros((4, 0), np.float32),
        rejected_by=np.full(4, ACCEPTED),
        confirmed=np.full(4, CONFIRMED_SINGLE, np.int8),
        cells=np.zeros(4, np.int64),
        near_duplicate_of=np.array([0, 0, 2, 2]),
        named=np.zeros(4, np.int64),  # what the base says
        certainty=np.zeros(4, np.float32),
        recognised=np.array([False, True, False, False]),
    )
    triggers = TriggerTable.of(images, answers).judged(verdicts)
    found, wrong = found_by_search(triggers, set())
    assert (found.numbers.tolist(), wrong.tolist()) == ([0, 2], [True, False])
    assert recognised_figures(triggers)["faults"]["B"]["pictures"] == wrong.sum() == 1
    found, wrong = found_by_search(triggers, {images[0].tobytes()})
    assert (found.numbers.tolist(), wrong.tolist()) == ([2], [False])


class Witness:
    """Knows what the candidate was asked about in each stage."""

    def __init__(self, model_file: Path) -> None:
        from diffgen.models import load as load_model

        self._model = load_model(model_file, device="cpu")
        self._model.prepare(load("digits:test").images)
        self.asked: dict[str, set[bytes]] = {}
        self._seen: set[bytes] = set()

    def __call__(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            self._seen = self.asked.setdefault(event.name, set())
        elif isinstance(event, StageEnded):
            self._seen = set()

    def candidate(self, images: np.ndarray) -> Float32Array:
        pixels = np.round(images * 255).astype(np.uint8)
        self._seen |= {image.tobytes() for image in pixels}
        return self._model.predict(pixels)


def test_no_image_of_the_rates_is_one_of_the_searchs_own(
    model_files: dict[str, Path], gan_config: CompareConfig, tmp_path: Path
) -> None:
    """Also where the search draws at random, and has the seed that the rates have."""
    witness = Witness(model_files["b"])
    drawn = CheckConfig(random_images=300, compare=replace(gan_config, technique="random_latent"))
    check(
        model_files["a"],
        witness.candidate,
        data="digits:test",
        config=drawn,
        output=tmp_path / "drawn",
        events=witness,
    )
    rates = witness.asked["Asking about random pictures"]
    assert len(rates) == 300
    assert not rates & witness.asked["Searching for disagreements"]
