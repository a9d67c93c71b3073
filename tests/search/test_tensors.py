"""Whole searches over latent vectors on tensors repeat themselves, go on after a resume and find as much as others."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.config import SearchConfig, replace
from diffgen.runs.arrays import read_arrays, write_arrays
from diffgen.runs.triggers import TriggerTable
from diffgen.search import problem
from diffgen.search.archive import Archive
from diffgen.search.loop import SearchLoop
from diffgen.search.nsga2 import Nsga2Search
from diffgen.sources.gan import GanSource
from diffgen.sources.tensor_space import TensorSpace
from tests.search.on_tensors import on

MakeSearch = Callable[..., tuple[Nsga2Search, SearchLoop]]
CONFIG = SearchConfig(population=40, reducer_dim=10)


@pytest.fixture
def tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, but on the processor."""
    monkeypatch.setattr(problem, "gene_operators", lambda space, device: on("cpu", space))


def pictures(loop: SearchLoop) -> np.ndarray:
    archive = loop.evaluator.archive
    return archive.images(np.arange(len(archive)))


@pytest.mark.usefixtures("tensors")
@pytest.mark.parametrize("niches", ["label_pair", "none"])
def test_a_search_on_tensors_repeats_itself_and_goes_on_after_a_resume(
    make_search: MakeSearch, generator: Any, tmp_path: Any, niches: str
) -> None:
    config = replace(CONFIG, niches=niches)
    parts: list[TriggerTable] = []
    whole, loop = make_search(generator, "400q", config)
    assert isinstance(whole.problem.operators, TensorSpace)
    loop.evaluator.archive._sink = parts.append
    states: list[tuple[dict[str, Any], int]] = []

    def remember() -> None:
        loop.evaluator.archive.flush(everything=True)
        write_arrays(tmp_path / "state.npz", {**whole.checkpoint(), "queries": loop.evaluator.queries})
        states.append((read_arrays(tmp_path / "state.npz"), len(parts)))

    loop.run(on_generation=remember)
    assert len(pictures(loop)) > 20
    _, again = make_search(generator, "400q", config)
    again.run()
    assert np.array_equal(pictures(again), pictures(loop))
    state, written = states[4]
    archive = Archive(generator.image_shape)
    archive.restore(TriggerTable.joined(parts[:written]))
    resumed, rest = make_search(generator, "400q", config, archive=archive)
    resumed.restore(state)
    rest.start(queries=state["queries"])
    rest.run()
    assert np.array_equal(pictures(rest), pictures(loop))


def test_a_search_on_tensors_finds_as_much(
    make_search: MakeSearch, generator: Any, request: pytest.FixtureRequest
) -> None:
    found: dict[bool, list[int]] = {False: [], True: []}
    for on_tensors, counts in found.items():
        if on_tensors:
            request.getfixturevalue("tensors")
        for seed in range(3):
            _, loop = make_search(generator, "600q", CONFIG, seed=seed)
            loop.run()
            counts.append(len(pictures(loop)))
    assert np.mean(found[True]) == pytest.approx(np.mean(found[False]), rel=0.25)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_tensors_are_chosen_and_pictures_stay_there(make_search: MakeSearch, generator: Any) -> None:
    device = torch.device("cuda")
    source = GanSource(deepcopy(generator.network), device=device)
    search, loop = make_search(source, "200q", CONFIG, device=device)
    loop.run()
    assert isinstance(search.problem.operators, TensorSpace)
    for name in ("X", "F", "crowding", "images"):
        assert search.population[name].device.type == "cuda"
