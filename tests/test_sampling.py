"""Random rows: some of all, no two alike, spread over data in order of class."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from diffgen.sampling import random_rows


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 2**32))
def test_rows_are_some_of_all(count: int, size: int, seed: int) -> None:
    rows = random_rows(count, size, seed=seed)
    assert rows.dtype == np.int64
    assert len(rows) == min(size, count) == len(set(rows.tolist()))
    assert set(rows.tolist()) <= set(range(count))
    assert np.array_equal(rows, random_rows(count, size, seed=seed))


def test_every_class_of_ordered_data_is_met_by_its_share() -> None:
    labels = np.repeat(np.arange(10), 100)
    counts = np.sum(
        [np.bincount(labels[random_rows(1000, 256, seed=seed)], minlength=10) for seed in range(40)], axis=0
    )
    assert np.abs(counts / (40 * 256) - 0.1).max() < 0.02
    assert set(labels[random_rows(1000, 256)].tolist()) == set(range(10))
