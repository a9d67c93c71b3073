"""The bandit finds the better arm, notices when it runs dry, and goes on from a checkpoint as it was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.search.bandit import Bandit


def played(bandit: Bandit, rates: list[float], generations: int, rng: np.random.Generator) -> np.ndarray:
    """The share of each arm in the last of some generations."""
    for _ in range(generations):
        arms = bandit.choose(200, range(len(rates)), rng)
        bandit.learn(arms, (rng.random(200) < np.array(rates)[arms]).astype(float))
    return np.bincount(bandit.choose(2_000, range(len(rates)), rng), minlength=len(rates)) / 2_000


def test_the_better_arm_is_found_and_forgotten() -> None:
    rng, bandit = np.random.default_rng(0), Bandit(3, decay=0.9)
    shares = played(bandit, [0.02, 0.2, 0.05], 30, rng)
    assert shares[1] > 0.7
    assert shares.min() > 0.02
    # it runs dry, and another one takes its place
    assert played(bandit, [0.02, 0.0, 0.05], 60, rng)[1] < 0.4


@given(st.integers(1, 300), st.lists(st.integers(0, 5), min_size=1, unique=True), st.booleans(), st.integers(0, 999))
def test_only_arms_that_are_there_are_chosen(count: int, arms: list[int], even: bool, seed: int) -> None:
    bandit = Bandit(6, decay=0.99, even=even)
    rng = np.random.default_rng(seed)
    bandit.learn(rng.integers(6, size=50), rng.random(50))
    chosen = bandit.choose(count, arms, rng)
    assert len(chosen) == count
    assert set(chosen.tolist()) <= set(arms)
    if even:
        counts = [int((chosen == arm).sum()) for arm in arms]
        assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("even", [False, True])
def test_a_checkpoint_is_the_whole_state(even: bool) -> None:
    bandit, other = Bandit(4, decay=0.5, even=even), Bandit(4, decay=0.5, even=even)
    bandit.learn(np.array([0, 1, 1, 3]), np.array([1.0, 0.2, 0.0, 1.0]))
    other.restore(bandit.checkpoint())
    first, second = (each.choose(100, range(4), np.random.default_rng(1)) for each in (bandit, other))
    assert np.array_equal(first, second)
    assert bandit.rewards.tolist() == [1.0, 0.2, 0.0, 1.0]
    bandit.learn(np.array([2]), np.array([1.0]))
    assert bandit.rewards.tolist() == [0.5, 0.1, 1.0, 0.5]
