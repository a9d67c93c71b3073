"""diffgen.metrics.relatives against plain loops."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from diffgen.data import load
from diffgen.metrics.near_duplicates import directions_of, near_duplicate_of
from diffgen.metrics.relatives import CloseVectors, divided, groups_of_relatives

THRESHOLD = 0.95


def grained(count: int, seed: int) -> np.ndarray:
    """Real digits, some of them several times with grain upon them, in random order."""
    rng = np.random.default_rng(seed)
    digits = load("digits:test").images
    chosen = digits[rng.integers(0, min(len(digits), max(2, count // 2)), count)].astype(float)
    return (chosen + rng.normal(0, 30, chosen.shape)).clip(0, 255).round().astype(np.uint8)


def batches(images: np.ndarray) -> Iterator[np.ndarray]:
    """The pictures some at a time."""
    return (images[start : start + 500] for start in range(0, len(images), 500))


def alike(one: np.ndarray, other: np.ndarray) -> bool:
    first, second = (each.reshape(14, 2, 14, 2).mean(axis=(1, 3)).ravel().astype(float) for each in (one, other))
    return bool(np.corrcoef(first, second)[0, 1] >= THRESHOLD)


def by_loop(images: np.ndarray, seeds: np.ndarray) -> list[int]:
    """Groups by handing the smaller number on until nothing changes."""
    count = len(images)
    related = [
        [(seeds[i] >= 0 and seeds[i] == seeds[j]) or alike(images[i, 0], images[j, 0]) for j in range(count)]
        for i in range(count)
    ]
    groups = list(range(count))
    changed = True
    while changed:
        changed = False
        for i in range(count):
            least = min(groups[j] for j in range(count) if related[i][j] or i == j)
            if least != groups[i]:
                groups[i], changed = least, True
    order = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    return [order[group] for group in groups]


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 24), st.integers(0, 1_000), st.integers(1, 30))
def test_groups_as_by_handing_on(count: int, seed: int, spread: int) -> None:
    images = grained(count, seed)
    seeds = np.random.default_rng(seed).integers(-spread, spread, count)
    assert groups_of_relatives(batches(images), seeds, threshold=THRESHOLD).tolist() == by_loop(images, seeds)


@pytest.mark.parametrize("threshold", [0.6, THRESHOLD, 0.999, 1.0])
def test_no_pair_of_many_is_missed(threshold: float) -> None:
    """Every pair that a product of all with all finds is in a block, and groups are those that such pairs make."""
    images = grained(1_200, 5)
    vectors = directions_of(images)
    like = vectors.astype(float) @ vectors.astype(float).T
    seen = np.zeros(like.shape, np.bool_)
    for rows, others in CloseVectors(vectors, distance=(2 - 2 * threshold) ** 0.5).blocks():
        seen[np.ix_(rows, others)] = seen[np.ix_(others, rows)] = True
    assert seen[like >= threshold - 1e-6].all()
    groups = groups_of_relatives(batches(images), np.full(len(images), -1), threshold=threshold)
    clear, unclear = (connected_components(like >= threshold + each)[1] for each in (1e-5, -1e-5))
    assert all(len(set(groups[clear == part].tolist())) == 1 for part in set(clear.tolist()))
    assert all(len(set(unclear[groups == group].tolist())) == 1 for group in set(groups.tolist()))
    # what the search calls near-duplicates is of one group, across label pairs too
    leaders = near_duplicate_of(images, np.zeros(len(images), np.int64), threshold=threshold)
    assert (groups == groups[leaders]).all()


def test_few_pairs_of_many_are_compared() -> None:
    """The more pictures, the smaller the share: of 2,000 a fourteenth, of 8,000 a twentieth."""
    shares = []
    for count in (2_000, 8_000):
        close = CloseVectors(directions_of(grained(count, 3)), distance=(2 - 2 * THRESHOLD) ** 0.5)
        assert sorted(np.concatenate(close.cells).tolist()) == list(range(count))
        shares.append(sum(len(rows) * len(others) for rows, others in close.blocks()) / count**2)
    assert shares[0] < 0.1
    assert shares[1] < 0.8 * shares[0]


def test_pictures_that_are_all_alike_are_one_cell() -> None:
    """A hundred thousand of them are one group at once, and not five thousand million pairs."""
    images = np.repeat(grained(1, 0), 100_000, axis=0)
    started = time.process_time()
    assert not groups_of_relatives(batches(images), np.full(len(images), -1), threshold=THRESHOLD).any()
    assert time.process_time() - started < 20


def test_a_batch_that_was_gone_through_is_let_go() -> None:
    known: list[weakref.ref[np.ndarray]] = []

    def one_after_the_other() -> Iterator[np.ndarray]:
        for seed in range(5):
            batch = grained(50, seed)
            known.append(weakref.ref(batch))
            yield batch
            del batch
            assert sum(each() is not None for each in known) <= 1

    assert len(groups_of_relatives(one_after_the_other(), np.full(250, -1), threshold=THRESHOLD)) == 250
    assert len(known) == 5


def test_no_pictures() -> None:
    none = np.empty((0, 1, 28, 28), np.uint8)
    assert groups_of_relatives(batches(none), np.empty(0, np.int64), threshold=THRESHOLD).tolist() == []


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), min_size=1, max_size=80),
    st.floats(0.05, 0.6),
    st.integers(0, 99),
)
def test_a_division_keeps_groups_whole_and_labels_within_their_share(
    pictures: list[tuple[int, int]], share: float, seed: int
) -> None:
    names = list(dict.fromkeys(group for group, _ in pictures))
    groups = np.array([names.index(group) for group, _ in pictures])
    labels = np.array([label for _, label in pictures])
    chosen = divided(groups, labels, share=share, seed=seed)
    assert np.array_equal(chosen, divided(groups, labels, share=share, seed=seed))
    for group in set(groups.tolist()):
        assert len(set(chosen[groups == group].tolist())) == 1
    for label in set(labels.tolist()):
        wanted = share * (labels == label).sum()
        assert chosen[labels == label].sum() <= wanted + 0.5
    # no group that is left would still fit
    room = np.floor(share * np.bincount(labels) + 0.5) - np.bincount(labels[chosen], minlength=labels.max() + 1)
    for group in set(groups[~chosen].tolist()):
        assert (np.bincount(labels[groups == group], minlength=len(room)) > room).any()


def test_the_seed_says_which() -> None:
    groups, labels = np.arange(200), np.zeros(200, np.int64)
    one, other = (divided(groups, labels, share=0.2, seed=seed) for seed in (0, 1))
    assert one.sum() == other.sum() == 40
    assert not np.array_equal(one, other)
