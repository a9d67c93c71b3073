"""diffgen.metrics.relatives against plain loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from diffgen.data import load
from diffgen.metrics.near_duplicates import alike_pairs, near_duplicate_of
from diffgen.metrics.relatives import divided, groups_of_relatives

THRESHOLD = 0.95


def grained(count: int, seed: int) -> np.ndarray:
    """Real digits, some of them several times with grain upon them, in random order."""
    rng = np.random.default_rng(seed)
    digits = load("digits:test").images
    chosen = digits[rng.integers(0, max(2, count // 2), count)].astype(float)
    return (chosen + rng.normal(0, 30, chosen.shape)).clip(0, 255).round().astype(np.uint8)


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
    assert groups_of_relatives(images, seeds, threshold=THRESHOLD).tolist() == by_loop(images, seeds)


def test_many_blocks_say_the_same_as_one() -> None:
    """1,200 pictures are three blocks; each picture of a pair is found whichever block it lies in."""
    images = grained(1_200, 5)
    pairs = {
        (int(a), int(b))
        for later, earlier in alike_pairs(images, threshold=THRESHOLD)
        for a, b in zip(later, earlier, strict=True)
    }
    vectors = images.reshape(len(images), 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(images), -1)
    like = np.corrcoef(vectors)
    clear = np.abs(like - THRESHOLD) > 1e-5
    for one, other in np.argwhere(np.tril((like >= THRESHOLD) & clear, -1)).tolist():
        assert (one, other) in pairs
    assert all(one > other and (like[one, other] >= THRESHOLD or not clear[one, other]) for one, other in pairs)
    # what the search calls near-duplicates is of one group, across label pairs too
    groups = groups_of_relatives(images, np.full(len(images), -1), threshold=THRESHOLD)
    leaders = near_duplicate_of(images, np.zeros(len(images), np.int64), threshold=THRESHOLD)
    assert (groups == groups[leaders]).all()


def test_no_pictures() -> None:
    none = np.empty((0, 1, 28, 28), np.uint8)
    assert groups_of_relatives(none, np.empty(0, np.int64), threshold=THRESHOLD).tolist() == []


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
