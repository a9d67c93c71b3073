"""Nearness to known pictures against plain loops."""

from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from diffgen.workflows.check_stages import nearest_known, spread_out


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 10_000))
def test_distance_is_that_to_the_nearest_of_the_same_labels(count: int, stored: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    features, known = (rng.normal(size=(n, 3)).astype(np.float32) for n in (count, stored))
    said, known_said = (rng.integers(2, size=(n, 2)) for n in (count, stored))
    found, nearest = nearest_known(features, said, known, known_said)
    for row in range(count):
        same = [
            float(np.linalg.norm(features[row] - known[other]))
            for other in range(stored)
            if tuple(said[row]) == tuple(known_said[other])
        ]
        assert np.isclose(found[row], min(same, default=np.inf), rtol=1e-5)
        if same:
            assert tuple(known_said[nearest[row]]) == tuple(said[row])
            assert np.isclose(np.linalg.norm(features[row] - known[nearest[row]]), found[row], rtol=1e-5)
        else:
            assert nearest[row] == -1


def test_many_pictures_of_one_label_pair_take_little_memory() -> None:
    rng = np.random.default_rng(0)
    features, known = (rng.normal(size=(n, 64)).astype(np.float32) for n in (4_000, 200))
    said, known_said = (np.tile([0, 1], (n, 1)) for n in (4_000, 200))
    tracemalloc.start()
    try:
        distance, nearest = nearest_known(features, said, known, known_said)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 100e6  # all differences at once are 205 MB
    for row in (0, 1_999, 3_999):
        apart = np.linalg.norm(known - features[row], axis=1)
        assert (nearest[row], distance[row]) == (apart.argmin(), apart.min())


@given(st.integers(1, 20), st.integers(1, 6), st.integers(0, 10_000))
def test_spread_out_takes_the_furthest_each_time(count: int, wanted: int, seed: int) -> None:
    features = np.random.default_rng(seed).normal(size=(count, 2)).astype(np.float32)
    chosen = spread_out(features, wanted).tolist()
    assert len(set(chosen)) == len(chosen) == min(wanted, count)
    for step in range(1, len(chosen)):
        gaps = [min(np.linalg.norm(features[row] - features[other]) for other in chosen[:step]) for row in range(count)]
        assert np.isclose(gaps[chosen[step]], max(gaps))
