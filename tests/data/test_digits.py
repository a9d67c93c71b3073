"""diffgen.data.digits"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from diffgen.data import load


def test_all_digits() -> None:
    found = load("digits")
    scans = load_digits()
    assert found.images.shape == (1797, 1, 28, 28)
    assert found.images.dtype == np.uint8
    assert found.labels is not None
    assert np.array_equal(found.labels, scans.target)
    assert found.class_names == tuple("0123456789")
    assert found.source == "digits"
    assert (found.images.min(), found.images.max()) == (0, 255)


def test_enlarging_is_bicubic() -> None:
    """Against Keys' cubic kernel (a = -1/2) written out as a matrix, in floating point."""
    distance = np.abs((np.arange(28)[:, None] + 0.5) * 8 / 28 - (np.arange(8) + 0.5))
    near = 1.5 * distance**3 - 2.5 * distance**2 + 1
    far = -0.5 * distance**3 + 2.5 * distance**2 - 4 * distance + 2
    weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0))
    weights /= weights.sum(axis=1, keepdims=True)
    # Rows first, and clipped in between: a whole number from 0 to 255 has no room for what overshoots.
    rows = np.clip(load_digits().images * 255 / 16 @ weights.T, 0, 255)
    expected = np.clip(weights @ rows, 0, 255)
    assert np.abs(load("digits").images[:, 0] - expected).max() < 2


def test_same_every_time() -> None:
    assert load("digits").digest == load("digits").digest
    assert load("digits:test").digest == load("digits:test").digest


def test_halves_are_stratified_and_make_up_the_whole() -> None:
    whole, train, test = load("digits"), load("digits:train"), load("digits:test")
    assert (len(train), len(test)) == (899, 898)
    assert whole.labels is not None
    assert train.labels is not None
    assert test.labels is not None
    assert np.abs(np.bincount(train.labels) - np.bincount(test.labels)).max() <= 1
    both = sorted([image.tobytes() for image in (*train.images, *test.images)])
    assert both == sorted(image.tobytes() for image in whole.images)
    assert not {image.tobytes() for image in train.images} & {image.tobytes() for image in test.images}
