"""Models that loop, crash, or reach for what is not theirs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from diffgen.models.isolation.wall import walls


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


class Looping(torch.nn.Module):
    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        rounds = 0
        while bool(pixels.sum() * 0 == 0):
            rounds += 1
        return pixels.flatten(1)[:, :3]


class Growing(torch.nn.Module):
    """Wants more memory than any machine has."""

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return torch.ones(1 << 44).sum() + pixels.flatten(1)[:, :3]


@pytest.fixture
def scripted(tmp_path: Path) -> Callable[[torch.nn.Module], Path]:
    """Saves a module as TorchScript."""

    def save(module: torch.nn.Module, name: str = "model.pt") -> Path:
        file = tmp_path / name
        torch.jit.save(torch.jit.script(module), str(file))
        return file

    return save
