"""diffgen.metrics of sets of images against their definitions, written out."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from benchmarks.significance import coefficient_of_variation
from diffgen.data import load
from diffgen.metrics.geometric_diversity import equal_subsets, geometric_diversity, over_equal_subsets
from diffgen.metrics.pixel_entropy import pixel_entropy
from diffgen.metrics.richness import effective_number

features = arrays.arrays(
    np.float64, st.tuples(st.integers(1, 5), st.integers(5, 8)), elements=st.integers(-5, 5).map(float)
)
kinds = arrays.arrays(np.int64, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=st.integers(0, 3))


@given(features)
def test_geometric_diversity_is_the_log_determinant(rows: np.ndarray) -> None:
    determinant = np.linalg.det(rows @ rows.T)
    found = geometric_diversity(rows)
    if determinant > 0.5:  # of whole numbers: it is 0 or at least 1
        assert found == pytest.approx(math.log(determinant), abs=1e-6)
    else:
        assert found == -math.inf


def test_a_set_of_near_copies_is_not_diverse() -> None:
    """The published absolute value would make it so."""
    rng = np.random.default_rng(0)
    apart = rng.normal(size=(10, 50))
    alike = apart[:1] + 1e-6 * rng.normal(size=(10, 50))
    assert geometric_diversity(alike) < 0 < geometric_diversity(apart)
    assert abs(geometric_diversity(alike)) > geometric_diversity(apart)


@given(features, st.randoms())
def test_geometric_diversity_does_not_depend_on_the_order(rows: np.ndarray, random: object) -> None:
    order = np.random.default_rng(0).permutation(len(rows))
    first, second = geometric_diversity(rows), geometric_diversity(rows[order])
    assert first == second or first == pytest.approx(second, abs=1e-6)


def test_more_images_than_features_span_no_volume() -> None:
    assert geometric_diversity(np.eye(4)[[0, 1, 2, 3, 0]]) == -math.inf
    assert geometric_diversity(np.empty((0, 4))) == 0.0


@given(arrays.arrays(np.uint8, st.tuples(st.integers(0, 3), st.just(1), st.integers(1, 4), st.integers(1, 4))))
def test_pixel_entropy_takes_every_value_for_a_count(images: np.ndarray) -> None:
    values = [int(value) for value in images.ravel() if value]
    expected = -sum(v / sum(values) * math.log(v / sum(values)) for v in values)
    assert pixel_entropy(images) == pytest.approx(expected, abs=1e-9)


def test_pixel_entropy_does_not_see_whether_images_differ() -> None:
    """Why it is named for what it is."""
    images = load("digits:test").images[:50]
    copies = np.repeat(images[images.astype(int).sum(axis=(1, 2, 3)).argmax()][None], 50, axis=0)
    assert pixel_entropy(copies) > pixel_entropy(images)


@given(kinds)
def test_effective_number_is_the_exponential_of_the_entropy(rows: np.ndarray) -> None:
    counts = Counter(map(tuple, rows.tolist()))
    shares = [count / len(rows) for count in counts.values()]
    found = effective_number(rows)
    assert found == pytest.approx(math.exp(-sum(p * math.log(p) for p in shares)))
    assert 1 - 1e-9 <= found <= len(counts) + 1e-9


def test_equally_frequent_kinds_count_in_full() -> None:
    assert effective_number(np.repeat(np.arange(7), 13)) == pytest.approx(7)
    assert effective_number(np.array([0] * 999 + [1])) < 1.01
    assert effective_number(np.empty((0, 2), np.int64)) == 0.0


@pytest.mark.parametrize(
    ("figures", "expected"), [([2, 4, 6], 0.5), ([5, 5], 0.0), ([0, 0], 0.0), ([-1, 1], math.inf), ([3], math.nan)]
)
def test_coefficient_of_variation(figures: list[float], expected: float) -> None:
    assert coefficient_of_variation(figures) == pytest.approx(expected, nan_ok=True)


@given(st.integers(1, 60), st.integers(1, 60))
def test_subsets_have_one_size_and_no_row_twice(count: int, size: int) -> None:
    if size > count:
        with pytest.raises(ValueError, match="no subset"):
            equal_subsets(count, size)
        return
    rows = equal_subsets(count, size)
    assert rows.shape == (30, size)
    assert all(len(set(draw)) == size and max(draw) < count for draw in rows.tolist())


def test_sets_of_different_size_are_measured_on_equally_many() -> None:
    seen = []

    def size_of(rows: np.ndarray) -> float:
        seen.append(len(rows))
        return float(len(rows))

    found = over_equal_subsets([np.arange(50), np.arange(20)], size_of, size=1000, draws=4)
    assert found.shape == (2, 4)
    assert set(seen) == {20}
    assert set(over_equal_subsets([np.arange(50)], size_of, size=8, draws=2).ravel()) == {8}
