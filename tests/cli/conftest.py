"""Model files and data folders as a user has them, and the command line in this process."""

from __future__ import annotations

import argparse
import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from diffgen.cli import build_parser, compare, main
from diffgen.config import CompareConfig
from diffgen.data import load
from diffgen.events import Progress
from diffgen.workflows.demo import save_onnx, save_torchscript


@dataclass(frozen=True)
class Outcome:
    """What a command ended with."""

    code: int
    out: str
    err: str


@pytest.fixture
def diffgen_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    def run(*arguments: object) -> Outcome:
        words = [os.fspath(a) if isinstance(a, Path) else str(a) for a in arguments]
        monkeypatch.setattr("sys.argv", ["diffgen", *words])
        code = main(words)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


def classifier(channels: int = 1, size: int = 28, classes: int = 10, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(channels, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(4 * ((size - 1) // 2) ** 2, classes)
    ).eval()


def trace(network: nn.Module, path: Path, shape: tuple[int, ...]) -> Path:
    torch.jit.save(torch.jit.trace(network, torch.zeros(shape)), str(path))
    return path


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models a.pt and b.onnx for 1x28x28 and ten classes, and others that do not fit them."""
    folder = tmp_path_factory.mktemp("files")
    save_torchscript(classifier(), folder / "a.pt")
    save_onnx(classifier(seed=1), folder / "b.onnx")
    save_onnx(classifier(classes=7), folder / "seven.onnx")
    trace(classifier(channels=3), folder / "colour.pt", (2, 3, 28, 28))
    trace(classifier(size=32), folder / "large.pt", (2, 1, 32, 32))
    (folder / "truncated.pt").write_bytes((folder / "a.pt").read_bytes()[:2000])
    (folder / "truncated.onnx").write_bytes((folder / "b.onnx").read_bytes()[:500])
    (folder / "empty.onnx").write_bytes(b"")
    (folder / "notes.pt").write_text("These are notes.\n")
    digits = load("digits:test")
    idx = folder / "idx"
    idx.mkdir()
    header = np.array([0x00000803, *digits.images[:, 0].shape], dtype=">u4").tobytes()
    (idx / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(header + digits.images.tobytes()))
    broken = folder / "broken"
    broken.mkdir()
    (broken / "t10k-images-idx3-ubyte").write_bytes(header + digits.images.tobytes()[:1000])
    (folder / "nothing").mkdir()
    return {path.name: path for path in folder.iterdir()}


@cache
def parser() -> argparse.ArgumentParser:
    """The parser of the command line: to build it takes longer than to ask it, and properties ask it often."""
    return build_parser()


def both_from(words: list[str]) -> tuple[CompareConfig, CompareConfig]:
    """The settings that a command line gives, and what they would be if it named none."""
    arguments = parser().parse_args(words)
    arguments.progress = Progress()
    file = compare.job_from(arguments, CompareConfig)
    return compare.config_from(arguments, file, arguments.options.settings(arguments), CompareConfig())
