"""The order of seeds: all once, then all again in another order, the same for the same seed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from diffgen.techniques.seed_turns import SeedTurns


@given(st.integers(1, 9), st.lists(st.integers(0, 7), max_size=8), st.integers(0, 99))
def test_every_seed_has_its_turn_before_any_has_two(seeds: int, parts: list[int], seed: int) -> None:
    rows = np.arange(seeds) * 3
    turns = SeedTurns(rows, seed)
    taken = np.concatenate([np.empty(0, np.int64), *(turns.take(count) for count in parts)])
    assert turns.taken == len(taken) == sum(parts)
    for first in range(0, len(taken), seeds):
        whole = taken[first : first + seeds]
        assert len(set(whole.tolist())) == len(whole) and set(whole.tolist()) <= set(rows.tolist())
    np.testing.assert_array_equal(taken, SeedTurns(rows, seed).take(len(taken)), "however many are taken at a time")


def test_the_second_pass_has_another_order() -> None:
    turns = SeedTurns(np.arange(50), 4)
    assert turns.take(50).tolist() != turns.take(50).tolist()
