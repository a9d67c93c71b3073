"""Real digits and two small classifiers that nothing has to be trained for: the nearest mean image of a class."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from diffgen.config import Budget, SearchConfig
from diffgen.data import load
from diffgen.models import BlackBox
from diffgen.models import load as load_model
from diffgen.runs.triggers import TriggerTable
from diffgen.search.archive import Archive
from diffgen.search.evaluator import Evaluator
from diffgen.search.loop import SearchLoop
from diffgen.sources.base import Source
from diffgen.tasks.kept_answers import KeptAnswers
from diffgen.techniques import RealImages, Technique, TechniqueContext, make
from diffgen.types import ImageSet, Scorer

_TEMPERATURE = 4.0  # squared distances are some tens


@pytest.fixture(scope="session")
def digits() -> ImageSet:
    return load("digits:test")


def nearest_mean(images: np.ndarray, labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    flat = images.reshape(len(images), -1).astype(np.float64) / 255
    means = np.stack([flat[labels == label].mean(axis=0) for label in range(10)])

    def answer(asked: np.ndarray) -> np.ndarray:
        distance = ((asked.reshape(len(asked), 1, -1) - means) ** 2).sum(axis=2) / _TEMPERATURE
        values = np.exp(distance.min(axis=1, keepdims=True) - distance)
        return values / values.sum(axis=1, keepdims=True)

    return answer


@pytest.fixture(scope="session")
def black_boxes(digits: ImageSet) -> tuple[BlackBox, BlackBox]:
    """Each knows another 150 of the other digits."""
    training = load("digits:train")
    models = tuple(
        load_model(nearest_mean(training.images[part], training.labels[part]), name=f"mean {part.start}")
        for part in (slice(0, 150), slice(150, 300))
    )
    for model in models:
        model.prepare(digits.images[:200])
    return models


@pytest.fixture(scope="session")
def real(digits: ImageSet, black_boxes: tuple[BlackBox, BlackBox]) -> RealImages:
    answers = np.stack([model.predict(digits.images) for model in black_boxes], axis=1)
    return RealImages(digits.images, digits.labels, KeptAnswers.of(answers))


@pytest.fixture
def start(digits: ImageSet, black_boxes: tuple[BlackBox, BlackBox], real: RealImages) -> Callable[..., SearchLoop]:
    """A technique at its beginning, as ``loop.technique``; what it finds is in the loop's archive and in ``parts``."""

    def start(
        name: str | type[Technique],
        budget: str = "400q",
        *,
        config: SearchConfig | None = None,
        seed: int = 0,
        batch_size: int = 64,
        scorer: Scorer | None = None,
        models: tuple[BlackBox, ...] = black_boxes,
        parts: list[TriggerTable] | None = None,
        source: Source | None = None,
    ) -> SearchLoop:
        archive = Archive(digits.image_shape, sink=None if parts is None else parts.append)
        context = TechniqueContext(
            archive=archive,
            source=source,
            config=config or SearchConfig(),
            seed=seed,
            device=torch.device("cpu"),
            # these mutate a quarter of it side by side; as many as are asked at once, here
            batch_size=4 * batch_size if name in ("dflare", "drfuzz") else batch_size,
            real=real,
            scorer=scorer,
        )
        evaluator = Evaluator(models, archive=archive, margin=1e-6)
        technique = make(name, context) if isinstance(name, str) else name(context)
        loop = SearchLoop(technique, evaluator, budget=Budget.parse(budget), batch_size=batch_size)
        loop.start()
        return loop

    return start


@pytest.fixture
def found() -> Callable[[SearchLoop, list[TriggerTable]], TriggerTable]:
    """Runs a technique to the end of its budget and gives the columns of its archive."""

    def found(loop: SearchLoop, parts: list[TriggerTable]) -> TriggerTable:
        loop.run()
        loop.evaluator.archive.flush(everything=True)
        return TriggerTable.joined(parts)

    return found
