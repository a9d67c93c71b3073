"""A real generator, two real classifiers and real digits, as small as they can be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from diffgen.config import Budget, GanConfig
from diffgen.data import load
from diffgen.gan_training.trainer import train
from diffgen.generators.gan import GanGenerator
from diffgen.models import BlackBox
from diffgen.models import load as load_model
from diffgen.search.archive import Archive
from diffgen.search.evaluator import Evaluator
from diffgen.types import ImageSet


@pytest.fixture(scope="session")
def digits() -> ImageSet:
    return load("digits:test")


@pytest.fixture(scope="session")
def generator(digits: ImageSet) -> GanGenerator:
    config = GanConfig(latent_dim=16, width=8, steps=300, batch_size=32, augment=False)
    trained = train(torch.from_numpy(digits.images), config)
    return GanGenerator(trained.generator, device=torch.device("cpu"))


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
def make_evaluator(generator: GanGenerator, black_boxes: tuple[BlackBox, BlackBox]) -> Callable[..., Evaluator]:
    def make(budget: str = "400q", *, batch_size: int = 64, **settings: object) -> Evaluator:
        archive = settings.pop("archive", None) or Archive(generator.image_shape)
        return Evaluator(
            black_boxes,
            budget=Budget.parse(budget),
            archive=archive,
            margin=1e-6,
            batch_size=batch_size,
            **settings,
        )

    return make
