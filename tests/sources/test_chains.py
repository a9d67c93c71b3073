"""Large images are changed on several threads, and come out the same."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_sample_image

from diffgen.features.vae import AutoEncoder, train
from diffgen.numerics import torch_threads
from diffgen.sources import chains
from diffgen.sources.chains import applied
from diffgen.sources.operators import OPERATORS, Scene
from diffgen.sources.seeds import SeedsSettings, SeedsSource
from diffgen.sources.space import random_genes


@pytest.fixture(scope="module")
def source() -> SeedsSource:
    """Photographs of 72x80 pixels, with every operator."""
    image = load_sample_image("flower.jpg").transpose(2, 0, 1)
    images = torch.from_numpy(np.stack([image[:, y : y + 72, x : x + 80] for y in (0, 150) for x in (0, 200, 400)]))
    scene = Scene(images, None, AutoEncoder(train(images, steps=20), images))
    fitting = tuple(name for name, each in OPERATORS.items() if each.fits(3))
    return SeedsSource(scene, SeedsSettings(operators=fitting), device=torch.device("cpu"))


def test_the_number_of_threads_changes_no_image(source: SeedsSource, monkeypatch: pytest.MonkeyPatch) -> None:
    genes = random_genes(source.space, 250, torch.Generator().manual_seed(0))
    workers: set[tuple[str, int]] = set()
    met = threading.Event()
    both = threading.Barrier(2)  # two threads are in it at the same time, however slow the machine
    original = OPERATORS["shift"].apply

    def watched(*arguments: object) -> torch.Tensor:
        workers.add((threading.current_thread().name, torch.get_num_threads()))
        if threading.current_thread() is not threading.main_thread() and not met.is_set():
            both.wait(timeout=1200)
            met.set()
        return original(*arguments)

    monkeypatch.setattr(chains, "_AT_ONCE", 3 * 72 * 80 * 2)  # two images a part
    monkeypatch.setitem(OPERATORS, "shift", replace(OPERATORS["shift"], apply=watched))
    with torch_threads(1):
        alone = source.draw(genes)
    assert {name for name, _ in workers} == {threading.current_thread().name}
    workers.clear()
    with torch_threads(2):
        together = source.draw(genes)
        assert torch.get_num_threads() == 2
    assert torch.equal(together, alone)
    assert len(workers) == 2
    assert {count for _, count in workers} == {1}  # each computes with one


def test_an_error_of_a_thread_is_heard(source: SeedsSource) -> None:
    failing = Scene(source.scene.seeds, None, None)
    genes = random_genes(source.space, 60, torch.Generator().manual_seed(0))
    rows, steps = source._read(genes, source.ranges)
    with torch_threads(2), pytest.raises(RuntimeError, match="needs the auto-encoder"):
        applied(steps, failing.seeds[torch.from_numpy(rows)], failing)
