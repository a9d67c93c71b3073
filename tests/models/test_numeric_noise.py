"""The change of a model's answers with the batch."""

from __future__ import annotations

import numpy as np
import pytest

from diffgen.errors import UserError
from diffgen.models import load
from diffgen.models.noise import numeric_noise


def box_of(function, images):
    box = load(function)
    box.prepare(images)
    return box


def test_a_network_has_little_noise_and_tensors_and_arrays_give_the_same(net, images):
    torch = pytest.importorskip("torch")
    box = box_of(net, images)
    assert numeric_noise(box, images) <= 1e-5
    assert numeric_noise(box, torch.from_numpy(images)) <= 1e-5


def test_a_change_with_the_batch_size_is_measured(images):
    def depends(pixels):
        p = 0.5 + 0.01 * (len(pixels) == 7) + 0.002 * (len(pixels) == 1)
        return np.full((len(pixels), 2), [p, 1 - p], dtype=np.float32)

    assert numeric_noise(box_of(depends, images), images) == pytest.approx(0.01, abs=1e-6)


def test_a_change_from_call_to_call_is_measured(images):
    calls = []

    def drifts(pixels):
        calls.append(1)
        p = 0.5 + 0.001 * len(calls)
        return np.full((len(pixels), 2), [p, 1 - p], dtype=np.float32)

    box = box_of(drifts, images)
    # one image: four calls in all, the last three after the first
    assert numeric_noise(box, images[:1]) == pytest.approx(0.003, abs=1e-6)


def test_no_more_than_64_images_are_asked(images):
    asked = []

    def count(pixels):
        asked.append(len(pixels))
        return np.full((len(pixels), 2), 0.5, dtype=np.float32)

    box = box_of(count, images)
    asked.clear()
    assert numeric_noise(box, np.repeat(images, 3, axis=0)) == 0.0
    assert sum(asked) == 4 * 64
    with pytest.raises(UserError, match="without images"):
        numeric_noise(box, images[:0])
