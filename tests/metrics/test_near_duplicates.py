"""diffgen.metrics.near_duplicates against going through all images one by one."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffgen.data import load
from diffgen.metrics.near_duplicates import DistinctPictures, near_duplicate_of


def by_loop(images: np.ndarray, groups: np.ndarray, threshold: float) -> list[int]:
    thumbnails = images.astype(float).reshape(len(images), 1, 14, 2, 14, 2).mean(axis=(3, 5)).reshape(len(images), -1)
    centred = thumbnails - thumbnails.mean(axis=1, keepdims=True)
    lengths = np.sqrt((centred**2).sum(axis=1)).tolist()
    keys = groups.tolist()
    kept: list[int] = []
    found = []
    for row in range(len(images)):
        leader = row
        for other in kept:
            if keys[row] != keys[other]:
                continue
            if lengths[row] and lengths[other]:
                alike = centred[row] @ centred[other] / (lengths[row] * lengths[other]) >= threshold
            else:
                alike = lengths[row] == lengths[other]
            if alike:
                leader = other
                break
        else:
            kept.append(row)
        found.append(leader)
    return found


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    """Real digits, slightly changed ones among them, and blank ones."""
    rng = np.random.default_rng(0)
    digits = load("digits:test").images[:40].astype(float)
    grained = np.concatenate([digits + rng.normal(0, sigma, digits.shape) for sigma in (0, 8, 25, 60)])
    blank = np.repeat(np.array([0, 7, 255.0])[:, None, None, None], 28, axis=2).repeat(28, axis=3)
    mixed = np.concatenate([grained, blank]).clip(0, 255).round().astype(np.uint8)
    return mixed[rng.permutation(len(mixed))]


@pytest.mark.parametrize("threshold", [0.5, 0.9, 0.95, 0.99])
def test_equal_to_a_loop(pictures: np.ndarray, threshold: float) -> None:
    for groups in (np.zeros(len(pictures), np.int64), np.arange(2 * len(pictures)).reshape(-1, 2) % 3):
        found = near_duplicate_of(pictures, groups, threshold=threshold)
        assert found.tolist() == by_loop(pictures, groups, threshold)


def test_more_images_than_are_compared_at_once(pictures: np.ndarray) -> None:
    many = np.concatenate([pictures, pictures[::-1], np.roll(pictures, 40, axis=3), pictures])
    groups = np.zeros(len(many), np.int64)
    assert len(many) > 600
    assert near_duplicate_of(many, groups, threshold=0.95).tolist() == by_loop(many, groups, 0.95)


@given(st.integers(0, 200))
@settings(max_examples=20)
def test_a_later_image_never_changes_what_was_said(cut: int) -> None:
    images = load("digits:test").images[:200]
    groups = np.arange(200) % 2
    whole = near_duplicate_of(images, groups, threshold=0.8)
    assert np.array_equal(near_duplicate_of(images[:cut], groups[:cut], threshold=0.8), whole[:cut])


@given(st.lists(st.integers(0, 200), max_size=5), st.integers(0, 200))
@settings(max_examples=20)
def test_batches_make_no_difference(cuts: list[int], stop: int) -> None:
    """Pictures in batches, and a break in which only what was kept is remembered."""
    images = load("digits:test").images[:200]
    groups = np.stack([np.arange(200) % 2, np.arange(200) % 3], axis=1)
    numbers = np.arange(200) * 10
    whole = numbers[near_duplicate_of(images, groups, threshold=0.8)]
    pictures, found = DistinctPictures(0.8), []
    for start, end in pairwise(sorted({0, 200, stop, *cuts})):
        if start == stop:
            again = DistinctPictures(0.8)
            rows = pictures.kept // 10
            again.restore(images[rows], groups[rows], pictures.kept)
            pictures = again
        found.extend(pictures.add(images[start:end], groups[start:end], numbers[start:end]).tolist())
    assert found == whole.tolist()
    assert pictures.kept.tolist() == sorted(set(whole.tolist()))


def test_grain_makes_no_new_picture_and_another_digit_does() -> None:
    digits = load("digits:test")
    zero, one = (digits.images[digits.labels == label][0] for label in (0, 1))
    rng = np.random.default_rng(0)
    grained = (zero + rng.normal(0, 10, zero.shape)).clip(0, 255).astype(np.uint8)
    found = near_duplicate_of(np.stack([zero, grained, one]), np.zeros(3, np.int64), threshold=0.95)
    assert found.tolist() == [0, 0, 2]
    # with other labels it is another finding
    assert near_duplicate_of(np.stack([zero, grained]), np.array([[0, 6], [0, 5]]), threshold=0.95).tolist() == [0, 1]


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 64, 64), (1, 7, 9)])
def test_shapes(shape: tuple[int, int, int]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (4, *shape), np.uint8)
    found = near_duplicate_of(np.concatenate([images, images]), np.zeros(8, np.int64), threshold=0.95)
    assert found.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert near_duplicate_of(images[:0], np.empty(0, np.int64), threshold=0.95).shape == (0,)


@pytest.mark.slow
def test_a_hundred_thousand() -> None:
    images = np.random.default_rng(0).integers(0, 256, (1000, 1, 28, 28), np.uint8)
    rows = np.random.default_rng(1).integers(0, 1000, 100_000)
    started = time.process_time()
    found = near_duplicate_of(images[rows], rows % 3, threshold=0.95)
    assert len(np.unique(found)) == 1000
    assert time.process_time() - started < 60
