"""What a check measures of boxes, and what it refuses."""

from dataclasses import replace

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


def test_pictures_of_which_nobody_knows_the_boxes_are_left_out_of_precision_and_mistakes() -> None:
    seen = pictures(lost=10)
    assert seen.truth is not None
    known = np.arange(50) % 3 > 0
    some = replace(seen, truth=[each if there else None for each, there in zip(seen.truth, known, strict=True)])
    alone = replace(seen, answers=seen.answers[known], truth=seen.truth[: int(known.sum())])
    assert some.precision_drop() == alone.precision_drop() and some.error_rise() == alone.error_rise()
    assert some.lost() == seen.lost()
    nobody = replace(seen, truth=[None] * 50)
    assert nobody.precision_drop() is None and nobody.error_rise() is None


def mistakes(objects: np.ndarray, boxes: np.ndarray) -> tuple[int, int]:
    """Of one model in one picture, with objects and boxes that overlap with one of the others at most."""
    shown = [box for box in boxes if box[4] >= TASK.threshold]
    found = [[box for box in shown if np.abs(box[:4] - one[:4]).max() < 5] for one in objects]
    named = sum(any(box[5] == one[4] for box in near) for near, one in zip(found, objects, strict=True))
    missed = sum(not near for near in found)
    strange = len(shown) - sum(map(len, found))
    return missed + strange + sum(map(bool, found)) - named, len(shown) + missed


def test_mistakes_are_counted_against_known_boxes() -> None:
    """Boxes beside all objects, objects without a box, and other classes; the interval knows whole pictures."""
    rng = np.random.default_rng(5)
    seen = pictures(lost=0, count=80)
    boxes = seen.answers.reshape(80, 2, -1, 6).copy()
    boxes[..., 4] = rng.uniform(0.3, 1, boxes.shape[:-1])
    boxes[..., 5] = rng.integers(0, 2, boxes.shape[:-1])
    boxes[..., :4] += np.where(rng.random(boxes.shape[:-1]) < 0.2, 500, 0)[..., None]
    seen = replace(seen, answers=boxes.reshape(80, 2, -1))
    assert seen.truth is not None
    slow = [[mistakes(one, each[model]) for one, each in zip(seen.truth, boxes, strict=True)] for model in (0, 1)]
    base, candidate = (np.array(each) for each in slow)
    rise = seen.error_rise()
    assert rise is not None
    assert (rise.base, rise.candidate, rise.of) == (base[:, 0].sum(), candidate[:, 0].sum(), base[:, 1].sum())
    drawn = rng.integers(0, 80, (2000, 80))
    shares = (candidate[drawn, 0].sum(axis=1) - base[drawn, 0].sum(axis=1)) / base[drawn, 1].sum(axis=1)
    assert rise.interval == pytest.approx(np.percentile(shares, [2.5, 97.5]), abs=0.02)


def test_a_candidate_that_reports_more_of_nothing_is_refused() -> None:
    """One box in fifty: the precision knows no threshold and is what it was, and one in ten is far away."""
    seen = pictures(lost=0, count=100)
    boxes = seen.answers.reshape(100, 2, -1, 6)
    more = np.tile(np.array([0, 0, 0, 0, 0, -1], dtype=np.float32), (100, 2, 1, 1))
    more[::5, 1, 0] = (700, 700, 760, 760, 0.6, 0)
    seen = replace(seen, answers=np.concatenate([boxes, more], axis=2).reshape(100, 2, -1))
    rise, drop = seen.error_rise(), seen.precision_drop()
    assert rise is not None
    assert (rise.base, rise.candidate, rise.of) == (0, 20, 400)
    measured = {"lost_boxes": seen.lost(), "gained_boxes": seen.gained(), "box_error_rise": rise, "map_drop": drop}
    assert [status(each, measured) for each in measured] == [Status.PASS, Status.PASS, Status.FAIL, Status.PASS]
    assert status("box_error_rise", measured, max_lost=0.2) == Status.PASS


@pytest.mark.parametrize(("pixels", "expected"), [(0.9, Status.FAIL), (-0.9, Status.FAIL), (0.1, Status.PASS)])
def test_boxes_that_all_lie_beside_those_of_the_base_are_refused(pixels: float, expected: Status) -> None:
    """By more than a hundredth of a side, of 60 pixels; none of them counts as moved."""
    seen = pictures(lost=0)
    boxes = seen.answers.reshape(50, 2, -1, 6)
    boxes[:, 1, :, 1:4:2] += pixels
    boxes[:, 1, :, :4] += np.random.default_rng(0).normal(0, 1, (50, 4, 1))
    shift = seen.shift()
    assert shift is not None
    assert shift.down == pytest.approx(pixels / 60, abs=0.003)
    assert abs(shift.right) < 0.003
    assert status("box_shift", {"box_shift": shift, "lost_boxes": seen.lost()}) == expected


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
