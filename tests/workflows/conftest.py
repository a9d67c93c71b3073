"""Real model files of two small classifiers, trained on real digits, and a run between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from diffgen.comparison.line import CompareResult
from diffgen.config import Budget, CompareConfig, FilterConfig, GanConfig, SearchConfig, SourceConfig
from diffgen.config.filters import JurySettings, ReconstructionSettings
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


@pytest.fixture(scope="session")
def small_config() -> CompareConfig:
    """Everything as in real use but small: seconds instead of minutes."""
    return CompareConfig(
        budget=Budget(queries=600),
        seed=3,
        device="cpu",
        source=SourceConfig(family="gan"),
        gan=GanConfig(width=16, steps=500, batch_size=32, ema_decay=0.98, learning_rate_generator=5e-4),
        search=SearchConfig(population=50),
        filters=FilterConfig(reconstruction=ReconstructionSettings(training_steps=80), jury=JurySettings(shown=6_000)),
    )


@pytest.fixture(scope="session")
def digits() -> ImageSet:
    return load("digits:test")


@pytest.fixture(scope="session")
def model_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A (convolutional) as TorchScript and as ONNX, B (dense) as ONNX."""
    folder = tmp_path_factory.mktemp("models")
    training = load("digits:train")
    conv = train_classifier(convolutional_classifier(10), training, seed=0, passes=6)
    dense = train_classifier(dense_classifier(10), training, seed=0, passes=6)
    files = {"a": folder / "conv.pt", "a_onnx": folder / "conv.onnx", "b": folder / "dense.onnx"}
    save_torchscript(conv, files["a"])
    save_onnx(conv, files["a_onnx"])
    save_onnx(dense, files["b"])
    return files


@pytest.fixture(scope="session")
def finished(
    model_files: dict[str, Path], small_config: CompareConfig, tmp_path_factory: pytest.TempPathFactory
) -> CompareResult:
    """A finished comparison of A and B; not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    return compare(model_files["a"], model_files["b"], data="digits:test", config=small_config, output=folder)
