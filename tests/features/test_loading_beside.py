"""Networks that are loaded take no random number: another one may be in training in another thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from diffgen.data import load
from diffgen.features import cells, encoder, jury, vae
from diffgen.runs.artifacts import read_network, write_tensors
from diffgen.types import ImageSet

SHAPE = (1, 28, 28)


@pytest.fixture(scope="module")
def digits() -> ImageSet:
    return load("digits:test")


def _vae(digits: ImageSet, path: Path) -> Callable[[], object]:
    write_tensors(path, vae.train(torch.from_numpy(digits.images), steps=1).state_dict())
    return lambda: read_network(lambda: vae.Vae(SHAPE), path, "The auto-encoder", device="cpu")


def _jury(digits: ImageSet, path: Path) -> Callable[[], object]:
    assert digits.labels is not None
    jury.save(jury.train(torch.from_numpy(digits.images), torch.from_numpy(digits.labels), shown=64), path)
    return lambda: jury.load(path, SHAPE)


def _encoder(digits: ImageSet, path: Path) -> Callable[[], object]:
    write_tensors(path, encoder.DomainEncoder(SHAPE).state_dict())
    return lambda: read_network(lambda: encoder.DomainEncoder(SHAPE), path, "The encoder", device="cpu")


def _cells(digits: ImageSet, path: Path) -> Callable[[], object]:
    cells.save(cells.Cells(encoder.DomainEncoder(SHAPE), torch.zeros(3, 4)), path)
    return lambda: cells.load(path, SHAPE)


@pytest.mark.parametrize("saved", [_vae, _jury, _encoder, _cells])
def test_loading_takes_no_random_number(
    saved: Callable[[ImageSet, Path], Callable[[], object]], digits: ImageSet, tmp_path: Path
) -> None:
    read = saved(digits, tmp_path / "network.safetensors")
    before = torch.get_rng_state()
    read()
    assert torch.equal(torch.get_rng_state(), before)
