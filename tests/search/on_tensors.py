"""What tests of NSGA-II on tensors share: devices, spaces, populations."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st

from diffgen.sources.space import NormalShell, Space, WithClass
from diffgen.sources.tensor_space import TensorSpace, tensor_space

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
STILL = SimpleNamespace(rescore=lambda population: None, has_constraints=lambda: False)  # nothing moves
FEWER = settings(max_examples=30)


def shell(classes: int = 0) -> Space:
    inner = NormalShell(20, bound=3.0)
    return WithClass(inner, classes) if classes else inner


def on(device: str, space: Space) -> TensorSpace:
    found = tensor_space(space, torch.device(device))
    assert found is not None
    return found
