"""Images and models to put behind the wall; nothing runs where there is none."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.models.isolation.wall import walls
from tests.models.isolation.isolated import Images


@pytest.fixture(autouse=True)
def _where_there_is_a_wall() -> None:
    missing = walls().missing
    if missing is not None:
        pytest.skip(f"no model can be isolated here: {missing}")


@pytest.fixture(autouse=True)
def _without_deprecations() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture
def images() -> Images:
    """uint8 (64, 1, 28, 28)"""
    return np.random.default_rng(0).integers(0, 256, (64, 1, 28, 28), dtype=np.uint8)


@pytest.fixture
def net() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(1, 4, 5), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 576, 10)
    return torch.nn.Sequential(*layers).eval()


@pytest.fixture
def scripted(tmp_path: Path) -> Callable[[torch.nn.Module], Path]:
    """Saves a module as TorchScript."""

    def save(module: torch.nn.Module, name: str = "model.pt") -> Path:
        file = tmp_path / name
        torch.jit.save(torch.jit.script(module), str(file))
        return file

    return save
