"""A real network behind a server, and pauses between tries that are noted instead of waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from diffgen.models import BlackBox, load
from tests.models.conftest import make_net
from tests.models.remote.oip_server import Served


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that would have been waited between two tries."""
    waited: list[float] = []
    sleep = time.sleep
    # threads that other modules have left behind sleep by themselves
    own = {**vars(time), "sleep": lambda seconds: (waited.append(seconds), sleep(0))}
    monkeypatch.setattr("diffgen.models.remote.server.time", SimpleNamespace(**own))
    return waited


def torch_model(net: torch.nn.Module, **settings: object) -> Served:
    """A network as a server runs it."""

    def answer(pixels: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return net(torch.from_numpy(pixels.astype(np.float32))).numpy()

    return Served(answer, **settings)  # type: ignore[arg-type]


@pytest.fixture
def served() -> Callable[..., Served]:
    """The network of ``tests/models``, served; settings as for :class:`Served`."""
    return lambda **settings: torch_model(make_net(), **settings)


@pytest.fixture
def local(save_onnx: Callable[..., Path], images: np.ndarray) -> BlackBox:
    """The same network from a file."""
    box = load(save_onnx(make_net()))
    box.prepare(images)
    return box
