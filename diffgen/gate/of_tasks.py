"""The conditions on models that are no classifiers: what is measured of boxes and maps, and the rule it is held to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from diffgen.config.check import (
    GROSS_ACCURACY_DROP,
    GROSS_BOX_SHIFT,
    GROSS_BOXES,
    GROSS_MAPS,
    GROSS_REGRESSION_FAULTS,
    Limits,
)
from diffgen.gate import rules
from diffgen.gate.answers import Answers
from diffgen.gate.boxes import BoxAnswers, BoxRate, BoxShift, ErrorRise, PrecisionDrop
from diffgen.gate.maps import ClassRate, IouDrop, MapAnswers, MapDistance, PixelRate
from diffgen.gate.measurements import Measurement
from diffgen.gate.rules import Condition, Criterion, Rule
from diffgen.gate.values import GateValues


def _of_boxes() -> Iterator[Criterion]:
    """What detectors are held to; of classifiers nothing of it is measured.

    Why these rules: docs/decisions/070-what-known-boxes-decide.md.
    """

    def measured(measure: Callable[[BoxAnswers], Measurement | None]) -> Callable[[Answers], Measurement | None]:
        return lambda answers: None if answers.boxes is None else measure(answers.boxes)

    for name, title, measure, limit in (
        ("lost_boxes", "boxes that the candidate loses, on real images", BoxAnswers.lost, "max_lost"),
        ("renamed_boxes", "boxes that it renames", BoxAnswers.renamed, "max_renamed"),
        ("gained_boxes", "boxes that it alone reports", BoxAnswers.gained, ""),
        ("moved_boxes", "boxes that it moves", BoxAnswers.moved, ""),
    ):
        yield Criterion(name, title, BoxRate, measured(measure), limit=limit, default=GROSS_BOXES, rule=_boxes)
    yield Criterion(
        "box_shift",
        "where it has the boxes that both report, on the whole",
        BoxShift,
        measured(BoxAnswers.shift),
        default=GROSS_BOX_SHIFT,
    )
    yield Criterion(
        "box_error_rise",
        "rise of wrong and missed boxes at the threshold",
        ErrorRise,
        measured(BoxAnswers.error_rise),
        default=GROSS_ACCURACY_DROP,
        rule=_mistakes,
    )
    yield Criterion(
        "map_drop",
        "drop of the mean average precision on real images",
        PrecisionDrop,
        measured(BoxAnswers.precision_drop),
        limit="max_map_drop",
        default=GROSS_ACCURACY_DROP,
        rule=_of_detectors,
    )


def _of_maps() -> Iterator[Criterion]:
    """What models that give each pixel a class are held to; of others nothing of it is measured."""

    def measured(measure: Callable[[MapAnswers], Measurement | None]) -> Callable[[Answers], Measurement | None]:
        return lambda answers: None if answers.maps is None else measure(answers.maps)

    for name, title, kind, measure, limit in (
        (
            "changed_pixels",
            "pixels with another class, on real images",
            PixelRate,
            MapAnswers.pixels,
            "max_pixels_changed",
        ),
        ("lost_classes", "classes that the candidate loses", ClassRate, MapAnswers.lost_classes, "max_classes_lost"),
        ("gained_classes", "classes that it alone has", ClassRate, MapAnswers.gained_classes, ""),
    ):
        yield Criterion(name, title, kind, measured(measure), limit=limit, default=GROSS_MAPS, rule=_of_segmentation)
    yield Criterion(
        "iou_drop",
        "drop of the mean IoU with known masks, on real images",
        IouDrop,
        measured(MapAnswers.iou_drop),
        limit="max_iou_drop",
        default=GROSS_ACCURACY_DROP,
        rule=_of_segmentation,
    )
    yield Criterion("map_distance", "mean IoU of both maps", MapDistance, measured(MapAnswers.distance))


def _measured_on(name: str, lack: str) -> Rule:
    """As :func:`diffgen.gate.rules.limited`; where not even the value ``name`` was measured, ``lack`` says why."""

    def rule(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
        if values[name] is not None:
            yield from rules.limited(criterion, values, limits)
        elif criterion.own_limit(limits) is not None:
            yield rules.missing(criterion.name, f"{criterion.own_limit(limits):g}", lack)

    return rule


_of_segmentation = _measured_on("changed_pixels", "the models give no maps of classes")
_of_detectors = _measured_on("lost_boxes", "the models are no detectors")


def _boxes(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
    """One of a hundred is gross where nobody knows the boxes, as other labels are; one of ten where they are known."""
    known = values["map_drop"] is not None
    yield from _of_detectors(
        replace(criterion, default=GROSS_REGRESSION_FAULTS) if known else criterion, values, limits
    )


def _mistakes(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
    """Who allows a larger drop of the precision, or more lost boxes, means this, too."""
    allowed = max(limits.max_map_drop or 0.0, limits.max_lost or 0.0)
    by = "as limited" if allowed > GROSS_ACCURACY_DROP else "by default"
    yield from rules.gross(criterion.name, values[criterion.name], max(GROSS_ACCURACY_DROP, allowed), by)


OF_BOXES, OF_MAPS = tuple(_of_boxes()), tuple(_of_maps())
