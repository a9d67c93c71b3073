"""Chao's estimate of the number of kinds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from diffgen.metrics.richness import chao1


def test_published_form() -> None:
    # 10 kinds: four seen once, two twice, the others more often; 10 + 4 * 3 / (2 * 3)
    counts = np.array([1, 1, 1, 1, 2, 2, 5, 9, 3, 30])
    assert chao1(counts) == 12.0
    assert chao1(np.array([3, 4])) == 2.0
    assert chao1(np.empty(0, np.int64)) == 0.0


def test_it_comes_near_the_truth_for_independent_draws() -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(200, 2.0))
    estimates, seen = [], []
    for _ in range(50):
        counts = np.bincount(rng.choice(200, size=300, p=shares), minlength=200)
        estimates.append(chao1(counts))
        seen.append((counts > 0).sum())
    assert np.mean(seen) < 145
    assert 160 < np.mean(estimates) < 205


@given(st.lists(st.integers(0, 50), max_size=40))
def test_bounds(counts: list[int]) -> None:
    array = np.asarray(counts, dtype=np.int64)
    there = int((array > 0).sum())
    assert chao1(array) >= there
