"""benchmarks.significance against pairs and ranks counted one by one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.significance import a12, mann_whitney, wilcoxon

figures = st.lists(st.integers(-20, 20), min_size=1, max_size=12)


def chance_by_pairs(first: list[int], second: list[int]) -> float:
    return sum((x > y) + (x == y) / 2 for x in first for y in second) / (len(first) * len(second))


@given(figures, figures)
def test_a12_is_the_chance_to_exceed(first: list[int], second: list[int]) -> None:
    assert a12(first, second) == pytest.approx(chance_by_pairs(first, second))
    assert a12(first, second) + a12(second, first) == pytest.approx(1)


def test_a12_of_nothing() -> None:
    assert math.isnan(a12([], [1]))
    assert math.isnan(a12([1], []))


@given(figures, figures)
def test_mann_whitney_counts_pairs(first: list[int], second: list[int]) -> None:
    found = mann_whitney(first, second)
    assert found.statistic == pytest.approx(chance_by_pairs(first, second) * len(first) * len(second))
    assert found.a12 == pytest.approx(chance_by_pairs(first, second))
    assert found.p_value == pytest.approx(mann_whitney(second, first).p_value) or math.isnan(found.p_value)


def test_mann_whitney_tells_ten_runs_apart() -> None:
    found = mann_whitney(range(10), range(20, 30))
    assert found.p_value < 0.001
    assert found.a12 == 0.0
    assert mann_whitney(range(10), range(10)).p_value > 0.9


def rank_sum(first: list[int], second: list[int]) -> float:
    """The smaller sum of ranks of the differences of one sign, ties sharing their ranks."""
    differences = [x - y for x, y in zip(first, second, strict=True) if x != y]
    sizes = sorted(map(abs, differences))

    def rank(size: int) -> float:
        places = [place + 1 for place, each in enumerate(sizes) if each == size]
        return sum(places) / len(places)

    return min(sum(rank(abs(d)) for d in differences if d * sign > 0) for sign in (1, -1))


_PAIR = st.tuples(st.integers(-9, 9), st.integers(-9, 9))


@given(st.lists(_PAIR, min_size=1, max_size=7))
def test_wilcoxon_sums_ranks(pairs: list[tuple[int, int]]) -> None:
    check_wilcoxon(pairs)


@pytest.mark.slow  # every choice of signs is tried
@given(st.lists(_PAIR, min_size=10, max_size=12))
def test_wilcoxon_sums_ranks_of_more_pairs(pairs: list[tuple[int, int]]) -> None:
    check_wilcoxon(pairs)


def check_wilcoxon(pairs: list[tuple[int, int]]) -> None:
    first, second = [x for x, _ in pairs], [y for _, y in pairs]
    found = wilcoxon(first, second)
    assert found.statistic == pytest.approx(rank_sum(first, second))
    assert 0 <= found.p_value <= 1


def test_wilcoxon_sees_what_pairs_show() -> None:
    """Runs that differ a lot among themselves, but always in the same direction."""
    first = [10, 200, 35, 470, 5, 90, 160, 28]
    second = [value + step for value, step in zip(first, [1, 2, 3, 4, 5, 6, 7, 8], strict=True)]
    assert wilcoxon(first, second).p_value < 0.01 < 0.5 < mann_whitney(first, second).p_value


def test_runs_without_a_difference_or_without_a_partner() -> None:
    assert wilcoxon([1, 2], [1, 2]).p_value == 1.0
    with pytest.raises(ValueError, match="not paired"):
        wilcoxon([1, 2], [1])
