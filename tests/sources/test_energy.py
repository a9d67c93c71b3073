"""Seeds that promise most are drawn most."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from diffgen.sources.preferences import energies, seed_weights

ROWS = arrays.arrays(
    np.float32,
    st.tuples(st.integers(1, 30), st.integers(2, 3), st.integers(2, 5)),
    elements=st.floats(0.015625, 1, width=32),
)


def test_sure_and_agreed_has_none_and_what_the_models_dispute_most() -> None:
    sure, wavering, disputed = [[1, 0, 0], [1, 0, 0]], [[1, 0, 0], [0.5, 0.5, 0]], [[1, 0, 0], [0, 1, 0]]
    found = energies(np.array([sure, wavering, disputed], dtype=np.float32))
    np.testing.assert_allclose(found, [0, 1.5, 1.0])


@given(ROWS)
def test_every_seed_is_drawn_and_more_energy_means_more_often(raw: np.ndarray) -> None:
    answers = raw / raw.sum(axis=2, keepdims=True)
    energy, weights = energies(answers), seed_weights(answers)
    assert (energy >= -1e-6).all()
    assert (energy <= 2 + 1e-6).all()
    assert (weights > 0.2).all()
    np.testing.assert_allclose(weights.mean(), 1)
    order = np.argsort(energy)
    assert (np.diff(weights[order]) >= -1e-9).all()


def test_where_nothing_is_in_doubt_all_are_alike() -> None:
    answers = np.zeros((5, 2, 3), dtype=np.float32)
    answers[:, :, 0] = 1
    np.testing.assert_array_equal(seed_weights(answers), np.ones(5))


def test_of_images_alike_to_the_models_the_clearer_go_first() -> None:
    answers = np.full((4, 2, 2), 0.5, dtype=np.float32)
    weights = seed_weights(answers, np.array([0, 0.25, 0.5, 1], dtype=np.float32))
    np.testing.assert_allclose(weights / weights[3], [0.05 / 1.05, 0.30 / 1.05, 1, 1])
    np.testing.assert_allclose(weights.mean(), 1)
