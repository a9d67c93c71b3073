"""The order of models from a few labels: chances, draws and estimates against slow references."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.metrics.intervals import exact_interval
from diffgen.metrics.ranking import (
    Standing,
    chances,
    doubt,
    draw,
    guessed_right,
    standing_by_clusters,
    standing_by_labels,
)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=60), st.integers(1, 70))
def test_chances_add_up_and_none_is_above_one(weights: list[float], count: int) -> None:
    found = chances(np.array(weights), count)
    assert ((found > 0) & (found <= 1 + 1e-9)).all()
    assert found.sum() == pytest.approx(min(count, len(weights)))
    order = np.argsort(weights)
    assert (np.diff(found[order]) >= -1e-9).all(), "a larger weight never has a smaller chance"


def test_each_picture_is_drawn_as_often_as_its_chance() -> None:
    found = chances(np.array([0.1, 1, 2, 3, 8, 20, 1, 1, 0.5, 4]), 4)
    counts = np.zeros(10)
    for seed in range(4000):
        rows = draw(found, seed)
        assert len(rows) == 4 == len(set(rows.tolist()))
        counts[rows] += 1
    assert np.allclose(counts / 4000, found, atol=0.03)


def test_doubt_is_the_variance_of_who_is_right() -> None:
    """Against the variance of right minus right over all labels that a picture may have."""
    rng = np.random.default_rng(1)
    posterior = rng.dirichlet(np.full(4, 0.5), size=30).astype(np.float32)
    said = rng.integers(0, 4, size=(30, 3))
    found = doubt(guessed_right(posterior, said), said)
    for row in range(30):
        total = 0.0
        for one, other in combinations(said[row].tolist(), 2):
            gaps = np.array([float(label == one) - float(label == other) for label in range(4)])
            mean = (posterior[row] * gaps).sum()
            total += float((posterior[row] * (gaps - mean) ** 2).sum())
        assert found[row] ** 2 == pytest.approx(total, abs=1e-5)


def test_the_estimate_has_no_bias_whatever_was_guessed() -> None:
    rng = np.random.default_rng(2)
    right = rng.random((300, 3)) < (0.2, 0.5, 0.7)
    guessed = rng.random((300, 3)).astype(np.float32) * (0.9, 0.3, 0.1)  # wrong on purpose
    guessed = guessed.astype(np.float32)
    chance = chances(rng.random(300) ** 4, 60)
    found = []
    for seed in range(300):
        rows = draw(chance, seed)
        standing = standing_by_labels(
            right[rows], guessed[rows], chance[rows], guessed_sum=guessed.sum(axis=0), pictures=300, seed=seed
        )
        found.append(standing.values)
    assert np.allclose(np.mean(found, axis=0), right.mean(axis=0), atol=0.03)


def test_all_labels_give_the_truth_and_leave_no_doubt() -> None:
    rng = np.random.default_rng(3)
    right = rng.random((50, 2)) < (0.3, 0.6)
    guessed = rng.random((50, 2)).astype(np.float32)
    found = standing_by_labels(
        right, guessed, chances(np.ones(50), 50), guessed_sum=guessed.sum(axis=0), pictures=50, seed=0
    )
    assert np.allclose(found.values, right.mean(axis=0), atol=1e-6)
    assert np.allclose(found.low, found.high)
    assert found.above.tolist() == [[0.5, 0], [1, 0.5]]


def test_clusters_count_as_one_where_they_are_alike() -> None:
    """A thousand copies of one picture say no more than one: the interval stays as wide."""
    wrong = np.array([[True, False], [False, True], [False, True], [False, False]])
    few = standing_by_clusters(wrong, np.arange(4), seed=0)
    many = standing_by_clusters(np.repeat(wrong, 1000, axis=0), np.repeat(np.arange(4), 1000), seed=0)
    assert few.values.tolist() == many.values.tolist() == [0.75, 0.5]
    assert np.allclose(few.low, many.low) and np.allclose(few.high, many.high)
    assert few.above[0, 1] + few.above[1, 0] == pytest.approx(1)


def labels_of(right: np.ndarray, pictures: int, seed: int = 0) -> Standing:
    """Of some of equally likely pictures of which nothing was guessed, bool (n, M)."""
    guessed = np.full(right.shape, 0.5, dtype=np.float32)
    chance = np.full(len(right), len(right) / pictures)
    return standing_by_labels(
        right, guessed, chance, guessed_sum=np.full(right.shape[1], pictures / 2), pictures=pictures, seed=seed
    )


@pytest.mark.parametrize("count", [0, 1, 15, 29, 30])
def test_equal_chances_give_the_exact_interval(count: int) -> None:
    right = (np.arange(30) < count)[:, None]
    for found in (labels_of(right, 10_000), standing_by_clusters(~right, np.arange(30), seed=1)):
        shares = found.as_shares()
        assert (shares.low[0], shares.high[0]) == pytest.approx(exact_interval(count, 30), abs=0.015)


@pytest.mark.parametrize("guess", ["none", "good", "bad"])
def test_intervals_cover_also_where_nearly_all_labels_agree(guess: str) -> None:
    """Of 30 labels of pictures on 95 % of which a model is right, every fifth draw has no other label at all."""
    rng, covered, clusters_covered = np.random.default_rng(7), 0, 0
    for seed in range(300):
        truth = np.full((2000, 1), 0.95) if guess == "none" else rng.beta(8 * 0.95, 8 * 0.05, (2000, 1))
        right = rng.random(truth.shape) < truth
        guessed = truth if guess != "bad" else np.clip(0.6 * truth + 0.2 * rng.random(truth.shape), 0, 1)
        chance = chances(np.sqrt(guessed * (1 - guessed))[:, 0], 30)
        rows = draw(chance, seed)
        found = standing_by_labels(
            right[rows],
            guessed[rows].astype(np.float32),
            chance[rows],
            guessed_sum=guessed.sum(axis=0),
            pictures=2000,
            seed=seed,
        ).as_shares()
        covered += int(found.low[0] <= right.mean() <= found.high[0])
        some = standing_by_clusters(rng.random((30, 1)) < 0.05, np.arange(30), seed=seed)
        clusters_covered += int(some.low[0] <= 0.95 <= some.high[0])
    assert covered >= 0.93 * 300 and clusters_covered >= 0.93 * 300


def test_labels_that_all_agree_leave_doubt_of_the_order() -> None:
    """As a sign test does: after n labels for A, half of one more is against it."""
    for count in (2, 3, 5):
        right = np.tile([True, False], (count, 1))
        for found in (labels_of(right, 1000), standing_by_clusters(~right, np.arange(count), seed=0)):
            assert found.above[0, 1] == pytest.approx(1 - 0.5 ** (count + 1), abs=0.02)
            assert found.above[0, 1] + found.above[1, 0] == pytest.approx(1)


def test_one_label_or_one_cluster_says_nothing_of_how_sure_it_is() -> None:
    one = standing_by_labels(
        np.array([[True, False]]),
        np.array([[0.5, 0.5]], dtype=np.float32),
        np.array([0.25]),
        guessed_sum=np.array([0.5, 0.5]),
        pictures=1,
        seed=0,
    )
    alike = standing_by_clusters(np.array([[False, True]] * 5), np.zeros(5, dtype=np.int64), seed=0)
    for found in (one, alike):
        assert (found.low == 0).all() and (found.high == 1).all() and (found.above == 0.5).all()
        shares = found.as_shares()
        assert shares.values.tolist() == [1, 0]
    assert one.values[0] == 2.5, "no bias, but no share either"
