"""What is said of how long models take, and that nobody is asked for it twice."""

from __future__ import annotations

import time

import numpy as np
import pytest

from diffgen.comparison.machine import ModelTimes
from diffgen.comparison.preflight import inspect_real_images, prepare_models
from diffgen.data import load
from diffgen.events import Progress
from diffgen.models import BlackBox, noise
from diffgen.models import load as load_model
from diffgen.models.noise import probe_rows
from diffgen.types import ImageSet

_SLOW = 0.002  # seconds an image


class Counted:
    """A classifier that says how bright an image is, in so many seconds an image; counts what it is asked."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.images = seconds, 0

    def __call__(self, images: np.ndarray) -> np.ndarray:
        self.images += len(images)
        time.sleep(self.seconds * len(images))
        share = images.reshape(len(images), -1).mean(axis=1, dtype=np.float64).clip(0.01, 0.99)
        return np.stack([share, 1 - share], axis=1)


@pytest.fixture
def few() -> ImageSet:
    digits = load("digits:test")
    return ImageSet(digits.images[:120], None, (), "digits")


def models_of(*functions: Counted) -> tuple[BlackBox, ...]:
    return tuple(load_model(function, name=str(number)) for number, function in enumerate(functions))


def test_the_answers_that_are_asked_for_anyway_are_timed(few: ImageSet) -> None:
    slow, quick = Counted(_SLOW), Counted(0.0)
    models = models_of(slow, quick)
    prepare_models(models, few)
    before = slow.images
    real = inspect_real_images(models, few, progress=Progress())
    assert real.milliseconds is not None and real.milliseconds[1] is not None
    # all images once, some of them four times for the noise, and copies of them in one large batch
    probed = len(probe_rows(real.answers.probabilities[:, 0]))
    assert slow.images - before == quick.images - before == 120 + 4 * probed + noise._LARGEST
    assert real.milliseconds[0] is not None and real.milliseconds[0] >= 1000 * _SLOW > real.milliseconds[1]


def test_a_model_whose_answers_were_in_the_cache_is_asked_about_some_images(few: ImageSet) -> None:
    slow = Counted(_SLOW)
    models = models_of(slow)
    models[0].prepare(few.images[:10])
    before = slow.images
    (spent,) = ModelTimes(models).milliseconds(few)
    assert spent is not None and spent >= 1000 * _SLOW
    assert 64 <= slow.images - before <= 5 * 64
