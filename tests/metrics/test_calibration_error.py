"""Expected calibration error against a plain loop over bins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.metrics.calibration_error import calibration_error, calibration_rise_interval


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


def drawn(kind: str, images: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Answers of a first classifier without error, and of a second one whose error is 0.2 (``honest``: none)."""
    first = rng.choice([0.95, 0.999], images)
    if kind == "one bin":
        second, accuracy = np.full(images, 0.5), np.full(images, 0.7)
    elif kind == "both ways":
        second = rng.choice([0.3, 0.95], images)
        accuracy = np.where(second < 0.5, 0.5, 0.75)
    else:
        second = rng.uniform(0.1, 1, images)
        accuracy = second
    confidence = np.stack([first, second], axis=1)
    return confidence.astype(np.float32), rng.random((images, 2)) < np.stack([first, accuracy], axis=1)


@pytest.mark.parametrize("kind", ["one bin", "both ways", "honest"])
@pytest.mark.parametrize("images", [1, 4, 12, 40, 400])
def test_the_interval_holds_also_of_few_images(kind: str, images: int) -> None:
    """The error itself does not: of 12 images of an honest classifier it is 0.3 and more."""
    rng, true = np.random.default_rng(images), 0.0 if kind == "honest" else 0.2
    ends = np.array([calibration_rise_interval(*drawn(kind, images, rng)) for _ in range(400)])
    assert np.mean(ends[:, 0] > true) <= 0.025 + 0.01
    # of a dozen images the upper end, on which nothing depends, is a little low
    assert np.mean((ends[:, 0] <= true) & (true <= ends[:, 1])) >= (0.95 if images > 12 else 0.9) - 0.03
    assert images < 400 or (ends[:, 1] - ends[:, 0]).mean() < 0.25


def test_what_lies_in_the_interval() -> None:
    rng = np.random.default_rng(0)
    for kind in ("one bin", "both ways", "honest"):
        confidence, right = drawn(kind, 200, rng)
        low, high = calibration_rise_interval(confidence, right)
        first, second = (calibration_error(confidence[:, column], right[:, column]) for column in (0, 1))
        assert low < second - first < high
        assert calibration_rise_interval(confidence[:, ::-1], right[:, ::-1]) == pytest.approx((-high, -low))
