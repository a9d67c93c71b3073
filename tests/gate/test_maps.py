"""What a check measures of maps of classes, and what it refuses."""

import numpy as np
import pytest

from diffgen.config import Limits
from diffgen.gate.conditions import UNMEASURED, evaluate
from diffgen.gate.maps import MapAnswers, against_masks
from diffgen.gate.measurements import Measurement
from diffgen.gate.rules import Status
from diffgen.gate.values import GateValues, SearchState
from diffgen.metrics.intervals import exact_interval
from diffgen.tasks.segmentation import Segmentation

TASK = Segmentation(("ground", "cat"), (10, 10))


def pictures(lost: int, count: int = 50) -> MapAnswers:
    """Each with a cat on 20 of 100 cells, which the candidate loses in some of the pictures."""
    maps = np.zeros((count, 2, 10, 10), dtype=np.int64)
    maps[:, :, :4, :5] = 1
    maps[:lost, 1] = 0
    halves = [TASK.differences(each) for each in (maps[:20], maps[20:])]
    return MapAnswers.of(halves, 100)


def status(measured: dict[str, Measurement | None], name: str, **limits: float) -> Status | None:
    values = GateValues(UNMEASURED, search=SearchState(1)).with_measured(measured)
    return next((each.status for each in evaluate(values, Limits(**limits)) if each.name == name), None)


def test_pixels_of_a_picture_are_no_independent_ones() -> None:
    """Ten of fifty pictures change a fifth of their pixels: the interval is far from that of 5,000 pixels."""
    found = pictures(lost=10)
    pixels, classes = found.pixels(), found.lost_classes()
    assert (pixels.count, pixels.of, pixels.pictures, pixels.among) == (200, 5000, 10, 50)
    assert pixels.interval == pytest.approx([0.2 * end for end in exact_interval(10, 50)], abs=0.003)
    assert "40.0 of 1,000 pixels (200 of 5,000, in 10 of 50 pictures)" in pixels.text
    assert (classes.count, classes.of) == (10, 100)
    assert found.gained_classes().count == 0
    none = pictures(lost=0)
    assert none.pixels().interval == pytest.approx(exact_interval(0, 50))


def test_the_mean_iou_is_that_of_the_pictures() -> None:
    """Of one with a lost cat the mean of 0.8 and 0."""
    distance = pictures(lost=10).distance()
    assert distance.share == pytest.approx(0.2 * 0.6)
    assert distance.text == "0.880"
    assert distance.low < 0.12 < distance.high
    assert pictures(lost=0).distance().interval_text == "1.000 to 1.000"


@pytest.mark.parametrize(
    ("lost", "limits", "expected"),
    [
        (10, {"max_pixels_changed": 0.01}, Status.FAIL),
        (10, {"max_pixels_changed": 0.5}, Status.PASS),
        (0, {"max_pixels_changed": 0.01}, Status.WARN),  # so few pictures cannot show it
        (40, {}, Status.FAIL),
        (1, {}, Status.PASS),
    ],
)
def test_a_limit_on_pixels(lost: int, limits: dict[str, float], expected: Status) -> None:
    """One's own, or the default for what is gross."""
    assert status({"changed_pixels": pictures(lost).pixels()}, "changed_pixels", **limits) == expected


def test_a_limit_on_classes_of_models_without_maps_is_an_error() -> None:
    """Nothing was measured that could keep it."""
    measured = {"changed_pixels": pictures(10).pixels(), "lost_classes": pictures(10).lost_classes(), "iou_drop": None}
    assert status(measured, "lost_classes", max_classes_lost=0.01) == Status.FAIL
    assert status(measured, "iou_drop") is None
    assert status(measured, "iou_drop", max_iou_drop=0.01) == Status.ERROR  # no masks are known
    assert status({}, "lost_classes", max_classes_lost=0.01) == Status.ERROR
    assert status({}, "lost_classes") is None


def slowly(said: np.ndarray, truth: list[np.ndarray | None], classes: int) -> float:
    """The mean IoU with masks, cell by cell; int64 (N, h, w) of one model."""
    both, either = np.zeros(classes), np.zeros(classes)
    wanted = set()
    for own, known in zip(said, truth, strict=True):
        for one, other in zip(own.ravel(), [] if known is None else known.ravel(), strict=known is not None):
            if other < 0:
                continue
            wanted.add(other)
            both[one] += one == other
            for each in {one, other}:
                either[each] += 1
    return float(np.mean([both[each] / either[each] for each in wanted]))


def test_the_mean_iou_with_masks_is_that_of_a_slow_loop() -> None:
    """Where nobody knows, nothing counts; a class that no mask has is not in the mean."""
    draw = np.random.default_rng(0)
    truth: list[np.ndarray | None] = [*draw.integers(-1, 3, (30, 10, 10)), None, np.full((10, 10), -1)]
    maps = draw.integers(0, 4, (32, 2, 10, 10))
    for row, each in enumerate(truth[:30]):
        assert each is not None
        maps[row, 0] = np.where(draw.random((10, 10)) < 0.8, np.maximum(each, 0), maps[row, 0])
    parts = [against_masks(maps[:9], truth[:9], 4), against_masks(maps[9:], truth[9:], 4)]
    task = Segmentation(("ground", "cat", "dog", "cow"), (10, 10))
    found = MapAnswers.of([task.differences(maps)], 100, parts)
    drop = found.iou_drop()
    assert drop is not None and drop.of == 30
    assert (drop.base, drop.candidate) == pytest.approx([slowly(maps[:, model], truth, 4) for model in (0, 1)])
    assert drop.low < drop.share < drop.high and "(mean IoU " in drop.text
    measured = {"changed_pixels": found.pixels(), "iou_drop": drop}
    assert status(measured, "iou_drop") == Status.FAIL
    assert status(measured, "iou_drop", max_iou_drop=0.9) == Status.PASS
    same = MapAnswers.of([task.differences(maps[:, [0, 0]])], 100, [against_masks(maps[:, [0, 0]], truth, 4)])
    assert status({"changed_pixels": same.pixels(), "iou_drop": same.iou_drop()}, "iou_drop") == Status.PASS
