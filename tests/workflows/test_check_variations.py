"""A rate that no search has chosen: base and candidate on random variations of the real images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from diffgen.config import Budget, CheckConfig, CompareConfig, GeneratorConfig
from diffgen.data import load
from diffgen.gate.conditions import Status
from diffgen.models import load as load_model
from diffgen.types import Float32Array
from diffgen.workflows.check import check


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory, small_config: CompareConfig) -> CheckConfig:
    """With a generator that is there already, and a short search: what is tested rests on the variations."""
    file = tmp_path_factory.mktemp("generator") / "generator.pt"
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(8, 784), nn.Sigmoid(), nn.Unflatten(1, (1, 28, 28)))
    torch.jit.save(torch.jit.trace(network, torch.zeros(2, 8)), str(file))
    compare = CompareConfig(
        budget=Budget(queries=50),
        device="cpu",
        filters=replace(small_config.filters, names=()),
        generator=GeneratorConfig(file=str(file), latent_dim=8),
    )
    return CheckConfig(random_images=20, variations=300, compare=compare)


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
    assert result.values.real is not None and result.values.real.count == 0
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
    variations = first.values.variations
    assert variations is not None and variations.of == 300 and variations.only_base == 0
    assert first.values.varied >= 300
    # most of them keep their label, for the base too
    assert variations.base_right > 0.8 * variations.of
    assert (second.values.variations, second.values.varied) == (variations, first.values.varied)


def test_no_image_is_varied_twice_and_none_can_be_asked_for(
    model_files: dict[str, Path], quick: CheckConfig, tmp_path: Path
) -> None:
    count = len(load("digits:test").images)
    many = check(
        model_files["a"],
        model_files["a_onnx"],
        data="digits:test",
        config=replace(quick, variations=10 * count),
        output=tmp_path / "many",
    )
    assert many.values.variations is not None
    assert many.values.varied == count and 0.5 * count < many.values.variations.of <= count
    none = check(
        model_files["a"],
        model_files["a_onnx"],
        data="digits:test",
        config=replace(quick, variations=0),
        output=tmp_path / "none",
    )
    assert none.values.variations is None and none.exit_code == 0
