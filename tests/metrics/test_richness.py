"""Chao's lower bound of the number of kinds, and the rate of discovery."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.metrics.richness import Discovery, chao1, first_queries, richness


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


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 60)), max_size=40), st.integers(60, 90))
def test_discovery_by_a_plain_loop(met: list[tuple[int, int]], queries: int) -> None:
    first: dict[int, int] = {}
    for kind, query in met:
        first[kind] = min(query, first.get(kind, query))
    kinds = np.array([[kind, 9] for kind, _ in met], np.int64).reshape(-1, 2)
    at = np.array([query for _, query in met], np.int64)
    assert first_queries(kinds, at).tolist() == sorted(first.values())
    found = richness(kinds, at, queries)
    last = -(-queries // 5)
    assert found.met == len(first) <= found.at_least
    assert found.discovery == Discovery(last, sum(query > queries - last for query in first.values()))
    assert found.discovery.per_1000_queries * last == pytest.approx(1000 * found.discovery.new_behaviours)


def test_nothing_was_asked() -> None:
    found = richness(np.empty((0, 3), np.int64), np.empty(0, np.int64), 0)
    assert (found.met, found.at_least, found.discovery.per_1000_queries) == (0, 0, 0.0)


def test_near_duplicates_would_hide_what_was_not_met() -> None:
    """Twenty behaviours, each met on one distinct picture that the search repeats: nothing says that they are all."""
    once = np.arange(20)[:, None]
    query = np.arange(1, 21)
    assert richness(once, query, 100).at_least == 210
    assert richness(once.repeat(3, axis=0), query.repeat(3), 100).at_least == 20
