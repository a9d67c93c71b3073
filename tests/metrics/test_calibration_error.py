"""Expected calibration error against a plain loop over bins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.metrics.calibration_error import calibration_error


@given(st.lists(st.tuples(st.floats(0, 1, width=32), st.booleans()), min_size=1, max_size=60))
def test_against_a_loop(cases: list[tuple[float, bool]]) -> None:
    expected = 0.0
    for index in range(15):
        inside = [(p, r) for p, r in cases if max(0, math.ceil(p * 15) - 1) == index]
        if inside:
            gap = sum(r for _, r in inside) / len(inside) - sum(p for p, _ in inside) / len(inside)
            expected += len(inside) / len(cases) * abs(gap)
    confidence, right = np.array([p for p, _ in cases], np.float32), np.array([r for _, r in cases])
    assert calibration_error(confidence, right) == pytest.approx(expected, abs=1e-6)


def test_what_is_known() -> None:
    assert calibration_error(np.full(4, 1.0, np.float32), np.ones(4, bool)) == 0
    assert calibration_error(np.full(4, 0.75, np.float32), np.array([1, 1, 1, 0], bool)) == pytest.approx(0)
    assert calibration_error(np.full(4, 0.9, np.float32), np.zeros(4, bool)) == pytest.approx(0.9)
