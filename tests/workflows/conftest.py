"""Real model files of two small classifiers, trained on real digits, and a run between them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import torch
from torch import nn

from diffgen.comparison import checkpoints
from diffgen.comparison import stages as comparison
from diffgen.comparison.stages import CompareResult
from diffgen.config import (
    Budget,
    CheckConfig,
    CompareConfig,
    FilterConfig,
    GanConfig,
    GeneratorConfig,
    SearchConfig,
    SourceConfig,
    replace,
)
from diffgen.data import load
from diffgen.types import ImageSet
from diffgen.workflows.compare import compare
from diffgen.workflows.demo import (
    convolutional_classifier,
    dense_classifier,
    save_onnx,
    save_torchscript,
    train_classifier,
)
from tests.workflows.breaking import Fragile

MadeOnce: TypeAlias = Callable[[str, Callable[[Path], Any]], Any]


@pytest.fixture(scope="session")
def small_config() -> CompareConfig:
    """Everything as in real use but small: seconds instead of minutes.

    Pictures are made from real images: many that the jury recognises, on whatever machine the networks learned.
    """
    return CompareConfig(
        budget=Budget(queries=600),
        seed=3,
        device="cpu",
        # two readings: they would take as long as the updates
        gan=GanConfig(
            width=16, steps=300, batch_size=32, ema_decay=0.98, learning_rate_generator=5e-4, monitor_checks=2
        ),
        search=SearchConfig(population=50),
        filters=FilterConfig(filters={"reconstruction": {"training_steps": 80}, "jury": {"shown": 6_000}}),
    )


def untrained_generator(file: Path, shape: tuple[int, int, int]) -> GeneratorConfig:
    """A generator of images (C, H, W) in a file, so that none is trained."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(8, math.prod(shape)), nn.Sigmoid(), nn.Unflatten(1, shape))
    torch.jit.save(torch.jit.trace(network, torch.zeros(2, 8)), str(file))
    return GeneratorConfig(file=str(file), latent_dim=8)


@pytest.fixture(scope="session")
def quick_check(tmp_path_factory: pytest.TempPathFactory) -> CheckConfig:
    """With a generator that is there already, no filter, a jury that has learned little and a short search."""
    compare = CompareConfig(
        budget=Budget(queries=50),
        device="cpu",
        filters=FilterConfig(names=(), filters={"jury": {"shown": 640}}),
        generator=untrained_generator(tmp_path_factory.mktemp("generator") / "generator.pt", (1, 28, 28)),
    )
    return CheckConfig(random_images=20, compare=compare)


@pytest.fixture(scope="session")
def quick(quick_check: CheckConfig) -> CheckConfig:
    """With a short search: what is tested rests on the real images."""
    return replace(quick_check, variations=0)


@pytest.fixture(scope="session")
def digits() -> ImageSet:
    return load("digits:test")


@pytest.fixture(scope="session")
def model_files(made_once: MadeOnce) -> dict[str, Path]:
    """A (convolutional) as TorchScript and as ONNX, B (dense) as ONNX."""

    def make(folder: Path) -> dict[str, Path]:
        training = load("digits:train")
        conv = train_classifier(convolutional_classifier(10), training, seed=0, passes=6)
        dense = train_classifier(dense_classifier(10), training, seed=0, passes=6)
        files = {"a": folder / "conv.pt", "a_onnx": folder / "conv.onnx", "b": folder / "dense.onnx"}
        save_torchscript(conv, files["a"])
        save_onnx(conv, files["a_onnx"])
        save_onnx(dense, files["b"])
        return files

    return made_once("models", make)


@pytest.fixture(scope="session")
def compared(model_files: dict[str, Path], made_once: MadeOnce) -> Callable[[str, CompareConfig], CompareResult]:
    """Compares A and B once in the session; nobody may change the run."""

    def compared(name: str, config: CompareConfig) -> CompareResult:
        files, given = (model_files["a"], model_files["b"]), {"data": "digits:test", "config": config}
        return made_once(f"compared-{name}", lambda folder: compare(*files, output=folder / name, **given))

    return compared


@pytest.fixture(scope="session")
def finished(compared: Callable[..., CompareResult], small_config: CompareConfig) -> CompareResult:
    """A finished comparison of A and B; not to be changed."""
    return compared("finished", small_config)


@pytest.fixture(scope="session")
def gan_config(small_config: CompareConfig) -> CompareConfig:
    return replace(small_config, source=SourceConfig(family="gan"))


@pytest.fixture(scope="session")
def gan_run(compared: Callable[..., CompareResult], gan_config: CompareConfig) -> CompareResult:
    """The same comparison on what a GAN draws, for what is about GANs alone; not to be changed."""
    return compared("gan", gan_config)


@pytest.fixture
def short_descent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GAN encodes images roughly and at once."""
    monkeypatch.setattr("diffgen.sources.gan._ENCODING_STEPS", 2)
    monkeypatch.setattr("diffgen.sources.gan._TRIED", 8)
    monkeypatch.setattr("diffgen.sources.gan._STEPS", 60)


@pytest.fixture
def checkpoint_after_every_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", 1e9)


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch) -> Callable[[Fragile], None]:
    """Lets a fragile model count from the beginning of the search on."""

    def arm(model: Fragile) -> None:
        search = comparison.run_search

        def armed(*arguments: Any, **settings: Any) -> Any:
            model.searching = True
            try:
                return search(*arguments, **settings)
            finally:
                model.searching = False

        monkeypatch.setattr(comparison, "run_search", armed)

    return arm


@pytest.fixture
def start(model_files: dict[str, Path], small_config: CompareConfig, tmp_path: Path) -> Callable[..., CompareResult]:
    def start(model: Any = None, *, config: CompareConfig = small_config, **settings: Any) -> CompareResult:
        return compare(
            model_files["a"] if model is None else model,
            model_files["b"],
            data="digits:test",
            config=config,
            output=tmp_path / "run",
            **settings,
        )

    return start
