"""diffgen.data.split"""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from diffgen.config import SplitConfig
from diffgen.data.split import split_rows

counts = st.integers(2, 3000)
seeds = st.integers(0, 2**32 - 1)


@given(counts, st.floats(0, 1, exclude_min=True, exclude_max=True), seeds)
def test_every_row_is_on_one_side(count: int, holdout: float, seed: int) -> None:
    training, held_out = split_rows(count, SplitConfig(holdout=holdout, seed=seed))
    assert sorted([*training.tolist(), *held_out.tolist()]) == list(range(count))
    for rows in (training, held_out):
        assert rows.dtype == torch.int64
        assert len(rows) >= 1
        assert rows.tolist() == sorted(rows.tolist())
    assert abs(len(held_out) - holdout * count) <= 1


@given(counts, seeds)
def test_same_seed_same_rows(count: int, seed: int) -> None:
    before = torch.get_rng_state()
    first, second = (split_rows(count, SplitConfig(seed=seed)) for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
    assert torch.equal(torch.get_rng_state(), before)


def test_other_seed_other_rows() -> None:
    chosen = {tuple(split_rows(500, SplitConfig(seed=seed))[1].tolist()) for seed in range(20)}
    assert len(chosen) == 20


def test_rows_are_drawn_from_everywhere() -> None:
    """A data set sorted by class must not lose its last class to the held-out images."""
    _, held_out = split_rows(10_000, SplitConfig())
    assert len(held_out) == 1000
    in_tenths = torch.bincount(held_out // 1000, minlength=10)
    assert in_tenths.min() > 60
    assert in_tenths.max() < 140
