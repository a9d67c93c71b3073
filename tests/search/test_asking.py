"""Models that are asked at the same time answer as each by itself, and none is left with a question when one fails."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from diffgen.errors import RunError, Stopped
from diffgen.events import StopToken
from diffgen.models import BlackBox, load
from diffgen.models.patience import impatient
from diffgen.numerics import torch_threads
from diffgen.search.asking import Asking
from diffgen.search.memory import BatchHalver
from tests.models.isolation.isolated import child_of, gone, prepared, save
from tests.own_threads import own_threads


class Linear(torch.nn.Sequential):
    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        super().__init__(torch.nn.Flatten(), torch.nn.Linear(784, 5), torch.nn.Softmax(1))


@pytest.fixture
def images() -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (150, 1, 28, 28), dtype=np.uint8)


@pytest.fixture
def models(tmp_path: Path, images: NDArray[np.uint8]) -> tuple[BlackBox, ...]:
    """Two in processes of their own, and one in this one between them."""
    files = [save(Linear(seed), tmp_path / f"{seed}.onnx") for seed in (0, 1)]
    inside = load(Linear(2))
    inside.prepare(images)
    first, last = (prepared(file, images, isolate="on") for file in files)
    return first, inside, last


def test_answers_are_those_of_each_alone_in_the_order_of_the_models(
    models: tuple[BlackBox, ...], images: NDArray[np.uint8]
) -> None:
    asking, batch = Asking(models, BatchHalver()), torch.from_numpy(images)
    alone = [model.predict(batch) for model in models]
    for numbers in (None, (2, 0), (1,)):
        said = asking.about(batch, numbers)
        wanted = alone if numbers is None else [alone[number] for number in numbers]
        assert [torch.equal(mine, other) for mine, other in zip(said, wanted, strict=True)] == [True] * len(wanted)


def test_isolated_models_are_asked_at_the_same_time(
    models: tuple[BlackBox, ...], images: NDArray[np.uint8], monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2)
    for model in (models[0], models[2]):
        predict = model.predict

        def meet(batch: torch.Tensor, predict: object = predict) -> torch.Tensor:
            both.wait(1200)  # raises where the other is asked only afterwards
            assert callable(predict)
            found: torch.Tensor = predict(batch)
            return found

        monkeypatch.setattr(model, "predict", meet)
    assert len(Asking(models, BatchHalver()).about(torch.from_numpy(images))) == 3


def test_an_error_is_told_when_all_others_have_answered(
    models: tuple[BlackBox, ...], images: NDArray[np.uint8], monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, batch = Asking(models, BatchHalver()), torch.from_numpy(images)
    goes_on, predict = threading.Event(), models[2].predict
    monkeypatch.setattr(models[2], "predict", lambda images: goes_on.wait(1200) and predict(images))
    child_of(models[0]).close()
    with ThreadPoolExecutor(1) as caller:
        said = caller.submit(asking.about, batch)
        with pytest.raises(TimeoutError):
            said.result(timeout=0.5)
        goes_on.set()
        with pytest.raises(RunError, match="closed"):
            said.result(timeout=1200)


def test_of_several_errors_the_first_models_is_told(
    models: tuple[BlackBox, ...], images: NDArray[np.uint8], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(images: object) -> torch.Tensor:
        raise RunError("It failed inside.")

    monkeypatch.setattr(models[1], "predict", fail)
    asking, batch = Asking(models, BatchHalver()), torch.from_numpy(images)
    with pytest.raises(RunError, match="failed inside"):
        asking.about(batch)
    child_of(models[0]).close()
    with pytest.raises(RunError, match="closed"):
        asking.about(batch)


class LoopingOnBlack(torch.nn.Module):
    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        rounds = 0
        while bool(pixels.sum() == 0):
            rounds += 1
        return pixels.flatten(1)[:, :5].softmax(1)


@pytest.fixture
def looping(tmp_path: Path, images: NDArray[np.uint8]) -> BlackBox:
    """Never answers about black images."""
    torch.jit.save(torch.jit.script(LoopingOnBlack()), str(tmp_path / "loop.pt"))
    return prepared(tmp_path / "loop.pt", images, isolate="on", model_timeout=200)


BLACK = torch.zeros(10, 1, 28, 28, dtype=torch.uint8)


def test_a_stop_ends_a_model_that_loops(
    models: tuple[BlackBox, ...], looping: BlackBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diffgen.models.patience.GRACE", 0.5)
    stop, pid = StopToken(), child_of(looping).pid
    timer = threading.Timer(0.5, stop.stop)
    with impatient(stop), pytest.raises(Stopped) as caught:
        timer.start()
        Asking((models[0], looping), BatchHalver()).about(BLACK)
    assert "did not come back" in caught.value.__notes__[0]
    gone(pid)


def test_an_interruption_ends_the_models_that_were_asked(looping: BlackBox) -> None:
    pid = child_of(looping).pid
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            Asking((looping,), BatchHalver()).about(BLACK)
    finally:
        signal.signal(signal.SIGINT, before)
    gone(pid)
    with pytest.raises(RunError, match=r"loop\.pt"):
        looping.predict(BLACK)


def test_models_of_this_process_compute_with_all_threads(
    models: tuple[BlackBox, ...], images: NDArray[np.uint8], monkeypatch: pytest.MonkeyPatch
) -> None:
    with own_threads(3):
        asking, seen = Asking(models, BatchHalver()), []
        predict = models[1].predict
        monkeypatch.setattr(models[1], "predict", lambda batch: seen.append(torch.get_num_threads()) or predict(batch))
        with torch_threads(1):
            asking.about(torch.from_numpy(images))
            assert torch.get_num_threads() == 1
    assert seen == [3]
