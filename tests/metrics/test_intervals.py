"""diffgen.metrics.intervals: by their definition, and by how often they hold the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from benchmarks.significance import mean_over_runs
from diffgen.metrics.intervals import (
    clustered_interval,
    exact_interval,
    paired_difference_interval,
    share_beyond_largest,
    simultaneous_paired_intervals,
)


@given(st.integers(1, 3000).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_exact_ends_leave_a_fortieth_on_each_side(counted: tuple[int, int]) -> None:
    count, of = counted
    low, high = exact_interval(count, of)
    assert 0 <= low <= count / of <= high <= 1
    if count > 0:
        assert binom.sf(count - 1, of, low) == pytest.approx(0.025, rel=1e-4)
    if count < of:
        assert binom.cdf(count, of, high) == pytest.approx(0.025, rel=1e-4)


@pytest.mark.parametrize(
    ("only_first", "only_second", "of"), [(0.02, 0.01, 300), (0.003, 0.003, 1000), (0.1, 0.05, 100), (0.0, 0.004, 2000)]
)
def test_paired_interval_holds_the_true_difference(only_first: float, only_second: float, of: int) -> None:
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(of, [only_first, only_second, 1 - only_first - only_second], size=4000)
    ends = [paired_difference_interval(int(first), int(second), of) for first, second, _ in drawn]
    held = np.mean([low <= only_first - only_second <= high for low, high in ends])
    assert held >= 0.94


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 1000))
def test_paired_interval_is_symmetric_and_has_the_difference_in_it(first: int, second: int, same: int) -> None:
    of = first + second + same
    low, high = paired_difference_interval(first, second, of)
    mirrored = paired_difference_interval(second, first, of)
    assert (low, high) == pytest.approx((-mirrored[1], -mirrored[0]))
    assert of == 0 or low <= (first - second) / of <= high


groups = st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 1000)).filter(any)


@given(st.lists(groups, min_size=1, max_size=5))
def test_many_paired_intervals_are_those_of_each_group_and_wider_among_more(counts: list[tuple[int, int, int]]) -> None:
    first, second, same = np.array(counts).T
    of = first + second + same
    alone = simultaneous_paired_intervals(first, second, of, among=1)
    columns = (column.tolist() for column in (first, second, of))
    single = [paired_difference_interval(*each) for each in zip(*columns, strict=True)]
    assert pytest.approx(np.array(single)) == np.array(alone).T
    low, high = simultaneous_paired_intervals(first, second, of, among=10_000)
    assert (low <= alone[0]).all() and (high >= alone[1]).all()


def test_share_beyond_the_largest_of_some() -> None:
    of = 100
    share = share_beyond_largest(of)
    # were more than this share above, then all drawn ones lay below it in less than 5 % of cases
    assert (1 - share) ** of == pytest.approx(0.05)
    assert share_beyond_largest(0) == 1


@given(st.integers(1, 3000).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))), st.floats(1, 20))
def test_clumps_make_an_interval_wider(counted: tuple[int, int], design_effect: float) -> None:
    count, of = counted
    alone, clumped = exact_interval(count, of), clustered_interval(count, of, design_effect)
    assert clustered_interval(count, of, 1.0) == pytest.approx(alone, abs=1e-9)
    assert 0 <= clumped[0] <= alone[0] + 1e-9 and alone[1] - 1e-9 <= clumped[1] <= 1
    assert clustered_interval(0, 0, design_effect) == (0.0, 1.0)


def test_clustered_interval_holds_the_true_share_of_clumps() -> None:
    """Clumps of 4 equal cases: the design effect is 4."""
    rng = np.random.default_rng(0)
    drawn = 4 * rng.binomial(500, 0.02, size=2000)
    held = np.mean([low <= 0.02 <= high for low, high in (clustered_interval(int(n), 2000, 4.0) for n in drawn)])
    assert held >= 0.95


def test_one_of_one_is_not_known_to_be_all() -> None:
    low, high = exact_interval(1, 1)
    assert (round(low, 3), high) == (0.025, 1.0)


@pytest.mark.parametrize("runs", [2, 3, 10])
def test_the_interval_over_runs_holds_the_mean_of_all_runs(runs: int) -> None:
    """Runs that differ: figures within one run say nothing of it."""
    rng = np.random.default_rng(runs)
    ends = [mean_over_runs(rng.normal(0.8, 0.05, runs).tolist()) for _ in range(2000)]
    covered = np.mean([found is not None and found[0] <= 0.8 <= found[1] for found in ends])
    assert 0.93 < covered < 0.97


def test_one_run_has_no_interval_over_runs() -> None:
    assert mean_over_runs([0.8]) is None
    assert mean_over_runs([]) is None
    assert mean_over_runs([0.8, 0.8]) == (0.8, 0.8)
