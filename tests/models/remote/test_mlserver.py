"""Against a real MLServer: what our own small server says in the other tests, another implementation says too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from diffgen.config import RemoteConfig
from diffgen.errors import ServiceError, UserError
from diffgen.models import BlackBox, load
from diffgen.models.remote.model import RemoteModel
from tests.models.conftest import make_net
from tests.models.remote.fault_proxy import FaultProxy
from tests.models.remote.mlserver_process import MlServer, mlserver_python

PYTHON = mlserver_python()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="There is no environment with MLServer; make one with make mlserver."),
]


@pytest.fixture
def mlserver(save_onnx: Callable[..., Path], tmp_path: Path) -> Iterator[MlServer]:
    assert PYTHON is not None
    folder = tmp_path / "mlserver"
    folder.mkdir()
    with MlServer(PYTHON, {"net": save_onnx(make_net(), name="served.onnx")}, folder) as server:
        yield server


def test_it_answers_as_the_file_does_through_faults_too(
    mlserver: MlServer, local: BlackBox, images: np.ndarray
) -> None:
    with FaultProxy(mlserver.origin, rate=0.2, seed=2) as proxy:
        for address, size in ((mlserver.address("net"), 256), (mlserver.address("net"), 7), (proxy.address("net"), 5)):
            box = load(address, batch_size=size, remote=RemoteConfig(timeout=20))
            assert isinstance(box, RemoteModel) and not box.binary
            box.prepare(images)
            found = box.predict(images)
            np.testing.assert_allclose(found, local.predict(images), atol=2e-6)
            assert (found.argmax(axis=1) == local.predict(images).argmax(axis=1)).all()
        assert proxy.injected.total() >= 3


def test_what_it_refuses_is_said_in_its_words(mlserver: MlServer, images: np.ndarray) -> None:
    with pytest.raises(UserError, match=re.escape("(HTTP 404: Model nope not found); check its name and version.")):
        load(mlserver.address("nope"))
    with pytest.raises(UserError, match="Model net with version 7 not found"):
        load(mlserver.address("net/versions/7"))
    with pytest.raises(UserError, match="takes 1x28x28 images but the data has 3x28x28; add --channels rgb-to-grey"):
        load(mlserver.address("net")).prepare(np.repeat(images, 3, axis=1))


def test_it_dies_and_comes_back(mlserver: MlServer, images: np.ndarray) -> None:
    box = load(mlserver.address("net"), remote=RemoteConfig(retries=2))
    box.prepare(images)
    before = box.predict(images)
    mlserver.kill()
    with pytest.raises(ServiceError, match=r"in 3 tries.*(nothing listens there|the connection was lost)"):
        box.predict(images)
    with mlserver:
        np.testing.assert_array_equal(box.predict(images), before)
