"""With how many threads torch computes in a search: one where small pictures are made from real ones, else all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import softmax

import diffgen
from diffgen.comparison.technique_run import search_threads
from diffgen.data import load
from diffgen.events import Event, StageAdvanced
from diffgen.sources.base import ImageSource
from tests.own_threads import own_threads

MADE_FROM_REAL = ImageSource(real=True)
DRAWN = [ImageSource(), ImageSource(real=True, artifact=Path("gan"))]


@pytest.mark.parametrize(
    ("source", "side", "expected"),
    [(MADE_FROM_REAL, 32, 1), (MADE_FROM_REAL, 33, 3), *((each, 28, 3) for each in DRAWN)],
)
def test_one_thread_is_for_small_pictures_without_a_network(source: ImageSource, side: int, expected: int) -> None:
    with own_threads(3):
        assert search_threads(source, (3, side, side)) == expected


def test_models_of_this_process_have_all_threads_and_what_draws_has_one(tmp_path: Path) -> None:
    real = load("digits:test")
    np.savez(tmp_path / "data.npz", images=real.images[:300, 0], labels=real.labels[:300])
    weights = np.random.default_rng(0).normal(size=(2, real.images[0].size, 10))
    asked: list[int] = []
    drawing: list[int] = []

    def model(of: int) -> Callable[[NDArray[np.float32]], NDArray[np.float64]]:
        def answer(pixels: NDArray[np.float32]) -> NDArray[np.float64]:
            asked.append(torch.get_num_threads())
            return softmax(pixels.reshape(len(pixels), -1) @ weights[of], axis=1)

        return answer

    def listen(event: Event) -> None:
        if isinstance(event, StageAdvanced) and event.name == "Searching for disagreements" and event.done > 0:
            drawing.append(torch.get_num_threads())

    with own_threads(2):
        diffgen.compare(
            *(model(of) for of in (0, 1)),
            data=str(tmp_path / "data.npz"),
            output=tmp_path / "run",
            budget="200q",
            filters="none",
            data_labels="ignore",  # so that there is no jury to be trained
            device="cpu",
            events=listen,
        )
        assert torch.get_num_threads() == 2
    assert set(drawing[:-1]) == {1}  # the bar is filled when the search is over
    assert set(asked) == {2}
