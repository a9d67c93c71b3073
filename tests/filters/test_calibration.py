"""diffgen.filters.calibration against trying every depth, and the sentences about filters that do no work."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.filters import FilterVerdicts, calibrate, filter_warnings


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, list[float], float]:
    count, filters = draw(st.integers(1, 30)), draw(st.integers(0, 4))
    levels = draw(st.integers(1, 40))  # few levels: ties
    values = draw(st.lists(st.integers(0, levels), min_size=count * filters, max_size=count * filters))
    given_thresholds = draw(
        st.lists(st.one_of(st.just(math.nan), st.integers(0, levels).map(float)), min_size=filters, max_size=filters)
    )
    rate = draw(st.floats(0, 0.99))
    return np.array(values, dtype=np.float32).reshape(count, filters), given_thresholds, rate


def by_trying(scores: np.ndarray, fixed: list[float], rate: float) -> tuple[list[float], int]:
    """The thresholds at the largest depth that keeps the share, and the number of rejected images."""
    count, filters = scores.shape
    best: tuple[list[float], int] | None = None
    for depth in range(count):
        thresholds = [
            fixed[f] if not math.isnan(fixed[f]) else sorted(scores[:, f].tolist())[depth] for f in range(filters)
        ]
        rejected = sum(any(row[f] < thresholds[f] for f in range(filters)) for row in scores.tolist())
        if best is None or rejected <= rate * count + 1e-9:
            best = thresholds, rejected
    assert best is not None
    return best


@given(cases())
def test_thresholds_equal_a_search_over_all_depths(case: tuple[np.ndarray, list[float], float]) -> None:
    scores, fixed, rate = case
    found = calibrate(scores, fixed, rate)
    thresholds, rejected = by_trying(scores, fixed, rate)
    np.testing.assert_allclose(found.thresholds, thresholds)
    if scores.shape[1]:
        assert found.together == pytest.approx(rejected / len(scores))


@given(cases())
def test_the_share_is_kept_unless_given_thresholds_use_it_up(case: tuple[np.ndarray, list[float], float]) -> None:
    scores, fixed, rate = case
    found = calibrate(scores, fixed, rate)
    fixed_alone = (scores < np.nan_to_num(np.asarray(fixed, dtype=float), nan=-np.inf)).any(axis=1).mean()
    assert found.together <= max(rate, fixed_alone) + 1e-6
    for index, threshold in enumerate(fixed):
        assert found.given[index] == (not math.isnan(threshold))


def test_one_hundredth_of_a_hundred_is_one() -> None:
    scores = np.arange(100, dtype=np.float32)[:, None]
    assert calibrate(scores, [math.nan], 0.01).thresholds[0] == 1
    assert calibrate(scores, [math.nan], 0.29).thresholds[0] == 29  # 0.29 * 100 is 28.999999999999996


@pytest.mark.parametrize("scores", [np.empty((0, 1), np.float32), np.array([[np.nan]], np.float32)])
def test_nothing_to_go_by(scores: np.ndarray) -> None:
    with pytest.raises(ValueError, match="at least one real image"):
        calibrate(scores, [math.nan], 0.05)


def test_the_origin_of_a_threshold_is_told() -> None:
    found = calibrate(np.random.default_rng(0).random((200, 2), dtype=np.float32), [0.25, math.nan], 0.5)
    assert found.origin(0).startswith("The threshold was given; it rejects")
    assert "200 held-out real images" in found.origin(1)
    assert "(50.0% were asked for)" in found.origin(1)


def verdicts(rejected: int, asked: int) -> FilterVerdicts:
    rejected_by = np.full(asked, -1, dtype=np.int64)
    rejected_by[:rejected] = 0
    return FilterVerdicts(("ssim",), np.zeros(1, np.float32), np.zeros((asked, 1), np.float32), rejected_by)


def warned(rejected: int, asked: int, threshold: float = math.nan, *, in_search: bool = False) -> str:
    scores = np.linspace(0, 1, 101, dtype=np.float32)[:, None]
    calibration = calibrate(scores, [threshold], 0.05)
    return " ".join(filter_warnings(verdicts(rejected, asked), calibration, asked_in_search=in_search))


def test_a_filter_that_rejects_nothing_or_nearly_everything_is_named() -> None:
    assert "rejected none of the 60 triggers" in warned(0, 60)
    assert "rejected 59 of the 60 triggers" in warned(59, 60)
    assert warned(0, 60, in_search=True) == ""
    assert "rejected 59 of the 60 triggers" in warned(59, 60, in_search=True)
    assert warned(30, 60) == ""
    assert warned(0, 10) == ""  # too few to say
    assert warned(0, 0) == ""


def test_a_filter_that_gives_nan_for_triggers_is_named() -> None:
    scores = np.zeros((5, 1), np.float32)
    scores[:2] = np.nan
    said = FilterVerdicts(("own",), np.zeros(1, np.float32), scores, np.array([0, 0, -1, -1, -1]))
    (warning,) = filter_warnings(said, calibrate(np.zeros((9, 1), np.float32), [math.nan], 0.05))
    assert warning.startswith("The filter own gave NaN for 2 of the 5 triggers, which count as rejected; ")


def test_a_given_threshold_that_real_images_do_not_pass_is_named() -> None:
    assert "rejects 40% of held-out real images with the threshold 0.4" in warned(30, 60, threshold=0.4)
    assert warned(30, 60, threshold=0.1) == ""
