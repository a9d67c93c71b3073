"""The walk over the mutators against the loop that it stands for."""

from __future__ import annotations

import numpy as np
import pytest

from diffgen.techniques.mutation.choice import FIRST, acceptance, choose

SCORES = np.array([0.2, 0.9, 0.0, 0.5, 0.7])
RANKS = {1: 0, 4: 1, 3: 2, 0: 3, 2: 4}


def test_acceptance_is_that_of_the_papers() -> None:
    apart = np.array([-4, 0, 1, 14])
    np.testing.assert_allclose(acceptance(apart, 15), [1, 1, 14 / 15, (14 / 15) ** 14])


def by_rejection(last: int, rng: np.random.Generator) -> int:
    """Propose uniformly until a proposal is accepted, as published."""
    by_rank = sorted(RANKS, key=RANKS.__getitem__)
    while True:
        proposed = int(rng.integers(len(by_rank)))
        if rng.random() < (1 - 1 / len(by_rank)) ** (proposed - RANKS[last]):
            return by_rank[proposed]


@pytest.mark.parametrize("last", [1, 3, 2])
def test_one_draw_is_the_loop_of_proposals(last: int) -> None:
    count = 20_000
    drawn = choose(np.tile(SCORES, (count, 1)), np.full(count, last), np.random.default_rng(0))
    rng = np.random.default_rng(1)
    looped = [by_rejection(last, rng) for _ in range(count)]
    shares = [np.bincount(each, minlength=5) / count for each in (drawn, looped)]
    np.testing.assert_allclose(*shares, atol=0.015)
    # the more successful, the more often; all from the last mutator's rank up alike
    by_rank = shares[0][sorted(RANKS, key=RANKS.__getitem__)]
    assert by_rank[0] > by_rank[-1] + 0.01 or last == 2


def test_the_first_mutator_is_drawn_uniformly_and_ties_have_no_order() -> None:
    count = 20_000
    first = choose(np.tile(SCORES, (count, 1)), np.full(count, FIRST), np.random.default_rng(0))
    tied = choose(np.zeros((count, 5)), np.full(count, 2), np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(first) / count, 0.2, atol=0.015)
    others = np.bincount(tied)[[0, 1, 3, 4]] / count
    assert np.ptp(others) < 0.015
