"""diffgen.metrics.cosine"""

from __future__ import annotations

import numpy as np
import torch

from diffgen.data import load
from diffgen.metrics.cosine import unit_vectors


def test_products_are_cosine_similarities() -> None:
    images = load("digits:test").images[:40]
    found = (unit_vectors(torch.from_numpy(images)) @ unit_vectors(torch.from_numpy(images)).T).numpy()
    for row, a in enumerate(images.reshape(40, -1).astype(float)):
        for column, b in enumerate(images.reshape(40, -1).astype(float)):
            expected = (a @ b) / (np.sqrt(a @ a) * np.sqrt(b @ b))
            assert abs(found[row, column] - expected) < 1e-5


def test_lengths_are_one_and_blank_images_stay_zero() -> None:
    images = torch.zeros(4, 3, 32, 32, dtype=torch.uint8)
    images[1, 0, 0, 0] = 1
    images[2] = 255
    images[3] = torch.randint(256, (3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    vectors = unit_vectors(images)
    assert vectors.shape == (4, 3072)
    assert vectors.dtype == torch.float32
    np.testing.assert_allclose(vectors.norm(dim=1), [0, 1, 1, 1], atol=1e-5)


def test_images_are_left_as_they_were() -> None:
    images = torch.full((2, 1, 7, 7), 9, dtype=torch.uint8)
    unit_vectors(images)
    assert (images == 9).all()
