"""Benchmarks as they are run by hand, on the digits and as small as they can be."""

from __future__ import annotations

import runpy
import struct
import sys
import warnings
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
import torch

from benchmarks.quick import trained_as_asked
from diffgen.config import Budget, CompareConfig
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features import cells
from diffgen.sources.base import FamilyContext
from diffgen.sources.gan import prepare_gan
from diffgen.workflows.compare import compare
from diffgen.workflows.demo import (
    convolutional_classifier,
    dense_classifier,
    save_onnx,
    save_torchscript,
    train_classifier,
)

SMALL = trained_as_asked(CompareConfig(budget=Budget(queries=200), device="cpu", verify_limit=0), quick=True)


class Bench(Protocol):
    def __call__(self, name: str, *words: object) -> str: ...


@pytest.fixture
def bench(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Bench:
    """``python -m benchmarks.NAME WORDS`` in this process and an empty folder; gives what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(repository))  # of the processes that a benchmark starts

    def run(name: str, *words: object) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
        threads = torch.get_num_threads()
        capfd.readouterr()
        try:
            with warnings.catch_warnings():
                # one benchmark imports from another, which is then in memory before it is run
                warnings.filterwarnings("ignore", message=".*found in sys.modules", category=RuntimeWarning)
                runpy.run_module(f"benchmarks.{name}", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            assert end.code in (None, 0), f"exit code {end.code}: {capfd.readouterr().err}"
        finally:
            torch.set_num_threads(threads)
        return capfd.readouterr().out

    return run


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two classifiers of the digits."""
    folder, training = tmp_path_factory.mktemp("models"), load("digits:train")
    save_torchscript(train_classifier(convolutional_classifier(10), training, seed=0, passes=6), folder / "a.pt")
    save_onnx(train_classifier(dense_classifier(10), training, seed=0, passes=6), folder / "b.onnx")
    return folder / "a.pt", folder / "b.onnx"


@pytest.fixture(scope="session")
def small_gan() -> Path:
    """The GAN of the digits that the other benchmarks find in the cache."""
    data = load("digits:test")
    encoder = cells.prepare(data).encoder
    context = FamilyContext(encoder, torch.device("cpu"), Progress())
    made = prepare_gan(DataSplit(data, SMALL.split), SMALL.gan, context)
    assert made.artifact is not None
    return made.artifact


@pytest.fixture(scope="session")
def small_run(models: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of 200 queries."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    compare(*models, data="digits:test", config=SMALL, output=folder)
    return folder


@pytest.fixture(scope="session")
def shared_of_digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder data/mnist as the benchmarks want it, with the digits as idx files."""
    shared = tmp_path_factory.mktemp("shared")
    folder = shared / "data" / "mnist"
    folder.mkdir(parents=True)
    for name, half in (("train", "train"), ("t10k", "test")):
        data = load(f"digits:{half}")
        assert data.labels is not None
        for kind, values in (("images-idx3", data.images[:, 0]), ("labels-idx1", data.labels.astype(np.uint8))):
            head = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
            (folder / f"{name}-{kind}-ubyte").write_bytes(head + values.tobytes())
    return shared
