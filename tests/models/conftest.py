"""Tiny real networks and files of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

Images = NDArray[np.uint8]


def make_net(channels: int = 1, size: int = 28, classes: int = 10, seed: int = 0) -> torch.nn.Sequential:
    """A convolution, pooling and a dense layer, with outputs large enough to differ in every probability."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(channels, 4, 5, stride=2),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(4 * (((size - 5) // 2 + 1) // 2) ** 2, classes),
    )
    with torch.no_grad():
        net[-1].weight.mul_(6)
    return net.eval()


@pytest.fixture
def net() -> torch.nn.Sequential:
    return make_net()


@pytest.fixture
def images() -> Images:
    """uint8 (64, 1, 28, 28)"""
    return np.random.default_rng(0).integers(0, 256, (64, 1, 28, 28), dtype=np.uint8)


@pytest.fixture
def net_of() -> Callable[..., torch.nn.Sequential]:
    return make_net


@pytest.fixture
def expected() -> Callable[[torch.nn.Module, Images], NDArray[np.float32]]:
    """Softmax of a network's logits, computed step by step."""

    def compute(module: torch.nn.Module, pixels: Images) -> NDArray[np.float32]:
        with torch.no_grad():
            return torch.softmax(module(torch.from_numpy(pixels.astype(np.float32) / np.float32(255))), dim=1).numpy()

    return compute


@pytest.fixture
def save_torchscript(tmp_path: Path) -> Callable[..., Path]:
    def save(module: torch.nn.Module, shape: tuple[int, ...] = (1, 1, 28, 28), name: str = "net.pt") -> Path:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.save(torch.jit.trace(module, torch.zeros(shape)), str(tmp_path / name))
        return tmp_path / name

    return save


@pytest.fixture
def save_onnx(tmp_path: Path) -> Callable[..., Path]:
    def save(
        module: torch.nn.Module, shape: tuple[int, ...] = (2, 1, 28, 28), *, fixed: bool = False, name: str = "net.onnx"
    ) -> Path:
        axes = None if fixed else {"pixels": {0: "batch"}, "logits": {0: "batch"}}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                (torch.zeros(shape),),
                str(tmp_path / name),
                dynamo=False,
                input_names=["pixels"],
                output_names=["logits"],
                dynamic_axes=axes,
            )
        return tmp_path / name

    return save
