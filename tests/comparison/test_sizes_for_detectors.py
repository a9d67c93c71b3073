"""Pictures keep their proportions where a detector is to find something in them."""

from __future__ import annotations

import numpy as np
from PIL import Image

from diffgen.comparison.real_data import load_for
from diffgen.config import CompareConfig, Preprocessing
from diffgen.events import Progress
from diffgen.models import load


def test_pictures_of_one_size_keep_their_proportions(tmp_path):
    draw = np.random.default_rng(0)
    for number in range(50):
        Image.fromarray(draw.integers(0, 256, (60, 80, 3), dtype=np.uint8)).save(tmp_path / f"{number}.png")
    told = []

    def of(outputs):
        said = Preprocessing(outputs=outputs, size=(40, 40))
        box = load(lambda pixels: pixels.mean(axis=(2, 3)), preprocessing=said)
        heard = Progress(lambda event: told.append(str(getattr(event, "text", ""))))
        return load_for(tmp_path, [box], CompareConfig(), heard)

    images, size = of("boxes")
    assert images.image_shape == (3, 30, 40) and size == (30, 40)
    assert any("40x30, as large as fits into the largest input that a model declares" in each for each in told)
    images, size = of("logits")
    assert images.image_shape == (3, 40, 40) and size == 40
