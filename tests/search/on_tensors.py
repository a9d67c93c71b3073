"""What tests of NSGA-II on tensors share: devices, spaces, populations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st

from diffgen.sources.draws import NumpyDraws
from diffgen.sources.space import NormalShell, Space, WithCategories, WithClass
from diffgen.sources.tensor_space import TensorSpace

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
        ],
    ),
]
CPU = torch.device("cpu")
SEEDS = st.integers(0, 10_000)
on_every_device = pytest.mark.parametrize("device", DEVICES)
FEWER = settings(max_examples=30)


def shell(classes: int = 0) -> Space:
    inner = NormalShell(20, bound=3.0)
    return WithClass(inner, classes) if classes else inner


def on(device: str, space: Space) -> TensorSpace:
    inner = space.inner if isinstance(space, WithCategories) else space
    return TensorSpace(inner, space.categories, device=torch.device(device))


def population_of(space: Space, count: int, device: str, seed: int = 0) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(seed)
    X = space.repair(space.sample(count, NumpyDraws(rng)))
    columns = {
        "X": X,
        "F": rng.integers(0, 5, (count, 2)).astype(float),
        "crowding": rng.random(count),
        "niche": rng.integers(-1, 3, count),
    }
    return {name: torch.from_numpy(values).to(device) for name, values in columns.items()}
