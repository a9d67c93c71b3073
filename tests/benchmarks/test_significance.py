"""benchmarks.significance against pairs counted one by one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.significance import a12, mann_whitney

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
