"""The published loop that the search is measured against: it runs, and it scores as the batched one does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from benchmarks.published_loop import OneByOneDiversity, PublishedLoop
from diffgen.config import Budget
from diffgen.data import load
from diffgen.models import load as load_model
from diffgen.search.archive import Archive
from diffgen.search.diversity import Diversity, PixelEmbedding
from diffgen.search.evaluator import Evaluator
from diffgen.search.loop import SearchLoop
from diffgen.sources.space import NormalShell
from diffgen.techniques import TechniqueContext


class Blend:
    """Draws mixtures of real digits."""

    def __init__(self, images: torch.Tensor) -> None:
        self._images = images.float()
        self.image_shape = tuple(images.shape[1:])
        self.space = NormalShell(100)

    def origins(self, genes: torch.Tensor) -> None:
        """They are drawn."""

    def draw(self, genes: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(3 * genes.float(), dim=1)
        return (weights @ self._images.flatten(1)).round().to(torch.uint8).reshape(-1, *self.image_shape)


@pytest.mark.slow  # UMAP is compiled first
def test_it_runs_and_scores_as_the_batched_one() -> None:
    images = torch.from_numpy(load("digits:test").images[:100])
    archive = Archive(tuple(images.shape[1:]))

    def ink(part: slice, border: float) -> Callable[[np.ndarray], np.ndarray]:
        def answer(batch: np.ndarray) -> np.ndarray:
            much = 1 / (1 + np.exp(40 * (border - batch[:, :, part].mean(axis=(1, 2, 3)))))
            return np.stack([much, 1 - much], axis=1).astype(np.float32)

        return answer

    shares = images[:, :, :14].float().mean(dim=(1, 2, 3)) / 255
    functions = (ink(slice(None), float(images.float().mean()) / 255), ink(slice(14), float(shares.mean())))
    boxes = [load_model(function) for function in functions]
    for box in boxes:
        box.prepare(images.numpy())
    technique = PublishedLoop(
        TechniqueContext(
            archive=archive,
            source=Blend(images),
            config=PublishedLoop.config,
            seed=0,
            device=torch.device("cpu"),
            batch_size=100,
        )
    )
    evaluator = Evaluator(boxes, archive=archive, margin=1e-6)
    loop = SearchLoop(technique, evaluator, budget=Budget(queries=300), batch_size=100)
    loop.start()
    loop.run()
    assert evaluator.queries == 300
    settings = {"space": PixelEmbedding(), "seed": 0, "device": torch.device("cpu")}
    slow = OneByOneDiversity(archive, PublishedLoop.config, **settings)
    fast = Diversity(archive, PublishedLoop.config, **settings)
    unknown = torch.full((len(images),), -1)
    assert torch.equal(slow.score(images, unknown), fast.score(images, unknown))
    for each in (slow, fast):
        each.update()
    assert len(slow.representatives) > 1
    np.testing.assert_allclose(slow.score(images, unknown), fast.score(images, unknown), atol=1e-5)
