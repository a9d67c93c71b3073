"""How far the first look at the models is stands on the screen, also where an image takes long."""

from __future__ import annotations

import numpy as np
import pytest

from diffgen.comparison.preflight import inspect_real_images, prepare_models
from diffgen.models import load
from diffgen.types import ImageSet
from tests.recording import Recording


class Bright:
    """A classifier of two classes that remembers how many images it was handed each time."""

    def __init__(self) -> None:
        self.handed: list[int] = []

    def __call__(self, images: np.ndarray) -> np.ndarray:
        self.handed.append(len(images))
        share = images.reshape(len(images), -1).mean(axis=1, dtype=np.float64).clip(0.01, 0.99)
        return np.stack([share, 1 - share], axis=1)


@pytest.mark.parametrize(
    ("side", "batch_size", "looked_at", "steps"),
    [(16, 64, 256, [300]), (224, 64, 64, [64, 128, 192, 256, 300]), (224, 256, 64, [256, 300])],
)
def test_large_images_are_shown_in_smaller_steps(side: int, batch_size: int, looked_at: int, steps: list[int]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (300, 3, 1, 1), dtype=np.uint8)
    data = ImageSet(np.tile(images, (1, 1, side, side)), None, (), "noise")
    function, heard = Bright(), Recording()
    models = (load(function, name="A", batch_size=batch_size), load(Bright(), name="B", batch_size=64))
    prepare_models(models, data, heard.progress)
    assert sum(function.handed) - looked_at in (0, 1)  # one image is asked about alone
    function.handed.clear()
    inspect_real_images(models, data, progress=heard.progress)
    assert function.handed[0] == batch_size  # whole batches, whatever the step
    assert heard.totals["Seeing how the models take images"] == 2
    assert heard.reached("Seeing how the models take images") == [1, 2]
    assert heard.reached("Asking the models about the real images") == steps
    assert heard.reached("Seeing how steady the answers are") == [1, 2]
