"""Models that are asked at the same time answer as each by itself, and none is left with a question when one fails."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from diffgen.errors import RunError
from diffgen.models import BlackBox, load
from diffgen.search.asking import Asking
from diffgen.search.memory import BatchHalver
from diffgen.threads import torch_threads
from tests.models.isolation.isolated import child_of, prepared, save


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
            both.wait(60)  # raises where the other is asked only afterwards
            assert callable(predict)
            found: torch.Tensor = predict(batch)
            return found

        monkeypatch.setattr(model, "predict", meet)
    assert len(Asking(models, BatchHalver()).about(torch.from_numpy(images))) == 3


def test_one_that_died_is_told_when_the_others_have_answered(
    models: tuple[BlackBox, ...], images: NDArray[np.uint8]
) -> None:
    asking, batch = Asking(models, BatchHalver()), torch.from_numpy(images)
    child_of(models[0]).close()
    with pytest.raises(RunError, match="closed"):
        asking.about(batch)
    assert torch.equal(asking.about(batch, (2,))[0], models[2].predict(batch))


def test_models_of_this_process_compute_with_all_threads(
    models: tuple[BlackBox, ...], images: NDArray[np.uint8], monkeypatch: pytest.MonkeyPatch
) -> None:
    with torch_threads(3):
        asking, seen = Asking(models, BatchHalver()), []
        predict = models[1].predict
        monkeypatch.setattr(models[1], "predict", lambda batch: seen.append(torch.get_num_threads()) or predict(batch))
        with torch_threads(1):
            asking.about(torch.from_numpy(images))
            assert torch.get_num_threads() == 1
    assert seen == [3]
