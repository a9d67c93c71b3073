"""What a check measures of boxes, and what it refuses."""

import numpy as np
import pytest

from diffgen.config import Limits
from diffgen.gate.boxes import BoxAnswers, BoxRate
from diffgen.gate.conditions import UNMEASURED, evaluate
from diffgen.gate.measurements import Measurement
from diffgen.gate.rules import Status
from diffgen.gate.values import GateValues, SearchState
from diffgen.metrics.intervals import exact_interval
from diffgen.tasks.detection import Detection

TASK = Detection(("cat", "dog"), threshold=0.5)


def pictures(lost: int, count: int = 50, a_picture: int = 4) -> BoxAnswers:
    """Each with as many boxes, of which the candidate loses all in some of the pictures."""
    corner = 100.0 * np.arange(a_picture)
    own = np.column_stack([corner, corner, corner + 60, corner + 60, np.full(a_picture, 0.9), np.arange(a_picture) % 2])
    both = np.tile(own.astype(np.float32), (count, 2, 1, 1))
    both[:lost, 1, :, 5] = -1
    truth = [np.delete(own, 4, axis=1).astype(np.float32)] * count
    return BoxAnswers(TASK, both.reshape(count, 2, -1), 1e-3, truth)


def status(name: str, measured: dict[str, Measurement | None], **limits: float) -> Status | None:
    values = GateValues(UNMEASURED, search=SearchState(1)).with_measured(measured)
    return next((each.status for each in evaluate(values, Limits(**limits)) if each.name == name), None)


def test_boxes_of_a_picture_are_no_independent_ones() -> None:
    """Where whole pictures lose their boxes, the interval is that of the pictures."""
    lost = pictures(lost=10).lost()
    assert (lost.count, lost.of, lost.pictures, lost.among) == (40, 200, 10, 50)
    assert lost.interval == pytest.approx(exact_interval(10, 50), abs=0.01)
    assert "200.0 of 1,000 boxes (40 of 200, in 10 of 50 pictures)" in lost.text
    none = pictures(lost=0).lost()
    assert none.interval == pytest.approx(exact_interval(0, 50))


@pytest.mark.parametrize(
    ("lost", "limits", "expected"),
    [
        (10, {"max_lost": 0.1}, Status.FAIL),
        (10, {"max_lost": 0.5}, Status.PASS),
        (0, {"max_lost": 0.01}, Status.WARN),  # so few pictures cannot show it
        (10, {}, Status.FAIL),
        (0, {}, Status.WARN),
        (1, {}, Status.WARN),
    ],
)
def test_a_limit_on_lost_boxes(lost: int, limits: dict[str, float], expected: Status) -> None:
    """One's own, or, where nobody knows the boxes, the default."""
    assert status("lost_boxes", {"lost_boxes": pictures(lost).lost(), "map_drop": None}, **limits) == expected


def test_known_boxes_decide_by_precision() -> None:
    """Then the default allows more of what is lost; a limit is still a limit."""
    seen = pictures(lost=10)
    measured = {"lost_boxes": seen.lost(), "map_drop": seen.precision_drop()}
    drop = seen.precision_drop()
    assert drop is not None
    assert (drop.base, drop.candidate) == pytest.approx((1, 0.8), abs=0.01)
    assert status("map_drop", measured) == Status.FAIL
    assert status("map_drop", measured, max_map_drop=0.4) == Status.PASS
    assert status("lost_boxes", measured) == Status.WARN
    assert status("lost_boxes", {**measured, "lost_boxes": pictures(lost=25).lost()}) == Status.FAIL
    assert status("lost_boxes", measured, max_lost=0.01) == Status.FAIL
    same = pictures(lost=0)
    assert status("map_drop", {"lost_boxes": same.lost(), "map_drop": same.precision_drop()}) == Status.PASS


def test_limits_on_boxes_need_detectors() -> None:
    """Of classifiers nothing was measured, and a limit that nothing is held to is an error."""
    assert status("lost_boxes", {}, max_lost=0.01) == Status.ERROR
    assert status("map_drop", {}, max_map_drop=0.01) == Status.ERROR


def test_a_rate_is_read_as_it_was_written() -> None:
    """Also by a check that is gone on with; a count that cannot be is refused."""
    lost = pictures(lost=10).lost()
    assert BoxRate.read(lost.as_dict()) == lost
    with pytest.raises(ValueError, match="no images could be counted so"):
        BoxRate.read({**lost.as_dict(), "pictures": 60})
