"""A real generator, two real classifiers and real digits, as small as they can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from diffgen.config import Budget, GanConfig, SearchConfig
from diffgen.data import load
from diffgen.gan_training.trainer import train
from diffgen.models import BlackBox
from diffgen.models import load as load_model
from diffgen.search.archive import Archive
from diffgen.search.diversity import Diversity, PixelEmbedding
from diffgen.search.evaluator import Evaluator
from diffgen.search.loop import SearchLoop
from diffgen.search.nsga2 import Nsga2Search
from diffgen.search.problem import GeneProblem
from diffgen.search.screen import Screen
from diffgen.search.seed_finds import SeedFinds
from diffgen.sources.base import Source
from diffgen.sources.gan import GanSource
from diffgen.sources.space import latent_space
from diffgen.tasks.kept_answers import KeptAnswers
from diffgen.types import ImageSet

_CPU = torch.device("cpu")


@pytest.fixture(scope="session")
def digits() -> ImageSet:
    return load("digits:test")


@pytest.fixture(scope="session")
def generator(digits: ImageSet) -> GanSource:
    config = GanConfig(latent_dim=16, width=8, steps=100, batch_size=32, augment=False)
    trained = train(torch.from_numpy(digits.images), config)
    return GanSource(trained.generator, device=torch.device("cpu"))


class ConditionalPca:
    """A conditional generator: the mean of a class, moved along the class's own principal components."""

    def __init__(self, data: ImageSet, *, latent_dim: int, prior: Literal["normal", "uniform"]) -> None:
        assert data.labels is not None
        self.prior, self.image_shape = prior, data.image_shape
        self.classes = int(data.labels.max()) + 1
        self.space = latent_space(latent_dim, prior, self.classes)
        # wider than the class itself is, so that some pictures lie between two classes
        spread = 2.0 if prior == "normal" else 4.0
        means, directions = [], []
        for label in range(self.classes):
            flat = data.images[data.labels == label].reshape(-1, int(np.prod(data.image_shape))).astype(np.float32)
            means.append(flat.mean(axis=0))
            _, scale, rows = np.linalg.svd(flat - means[-1], full_matrices=False)
            directions.append(rows[:latent_dim] * scale[:latent_dim, None] * np.float32(spread / len(flat) ** 0.5))
        self._means = torch.from_numpy(np.stack(means))
        self._directions = torch.from_numpy(np.stack(directions))

    def origins(self, genes: torch.Tensor) -> None:
        return None

    def draw(self, genes: torch.Tensor) -> torch.Tensor:
        """uint8 (N, C, H, W) for float32 (N, latent_dim + 1)."""
        classes = genes[:, -1]
        assert torch.equal(classes, classes.round())
        rows = classes.to(torch.int64)
        drawn = self._means[rows] + torch.einsum("nd,ndp->np", genes[:, :-1], self._directions[rows])
        return drawn.round().clamp(0, 255).to(torch.uint8).reshape(-1, *self.image_shape)


@pytest.fixture(scope="session", params=["normal", "uniform"])
def conditional(digits: ImageSet, request: pytest.FixtureRequest) -> ConditionalPca:
    return ConditionalPca(digits, latent_dim=12, prior=request.param)


@pytest.fixture(scope="session")
def black_boxes(digits: ImageSet) -> tuple[BlackBox, BlackBox]:
    """Two logistic regressions, each trained on a half of the other digits."""
    training = load("digits:train")
    flat = training.images.reshape(len(training), -1).astype(np.float32) / 255
    models = tuple(
        load_model(_classifier(flat[half::2], training.labels[half::2]), name=f"logistic {half}") for half in (0, 1)
    )
    for model in models:
        model.prepare(digits.images[:200])
    return models


def _classifier(flat: np.ndarray, labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    model = LogisticRegression(max_iter=200, C=0.1).fit(flat, labels)
    return lambda images: model.predict_proba(images.reshape(len(images), -1))


@pytest.fixture
def make_evaluator(digits: ImageSet, black_boxes: tuple[BlackBox, BlackBox]) -> Callable[..., Evaluator]:
    def make(**settings: object) -> Evaluator:
        archive = settings.pop("archive", None)
        archive = Archive(digits.image_shape) if archive is None else archive  # not "or": an empty one is false
        return Evaluator(black_boxes, archive=archive, margin=1e-6, **settings)

    return make


@pytest.fixture
def make_search(make_evaluator: Callable[..., Evaluator]) -> Callable[..., tuple[Nsga2Search, SearchLoop]]:
    """NSGA-II on a generator, and the loop that asks the models for it; the clock runs."""

    def make(
        generator: Source,
        budget: str,
        config: SearchConfig,
        *,
        seed: int = 0,
        batch_size: int = 64,
        saturation_queries: int | None = None,
        device: torch.device = _CPU,
        near_duplicate: float | None = None,
        **settings: object,
    ) -> tuple[Nsga2Search, SearchLoop]:
        evaluator = make_evaluator(**settings)
        archive = evaluator.archive
        diversity = Diversity(archive, config, space=PixelEmbedding(), seed=seed, device=device)
        has_cells = evaluator.behaviours is not None
        guided = evaluator.asks_filters
        problem = GeneProblem(generator, archive, diversity, config, has_cells=has_cells, guided=guided)
        screen = None
        if near_duplicate is not None:
            said = torch.stack([each.predict(generator.scene.seeds) for each in evaluator.black_boxes], dim=1)
            screen = Screen(problem.space, KeptAnswers.of(said), None, SeedFinds(archive, near_duplicate))
        search = Nsga2Search(problem, config, seed=seed, screen=screen)
        loop = SearchLoop(
            search,
            evaluator,
            budget=Budget.parse(budget),
            batch_size=batch_size,
            saturation_queries=saturation_queries,
        )
        loop.start()
        return search, loop

    return make
