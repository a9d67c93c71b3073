"""What kind of models are compared, and when two of them differ where that is not a matter of classes."""

from __future__ import annotations

from typing import Literal

from diffgen.config.schema import Maybe, setting, settings

TaskName = Literal["classification", "detection", "segmentation"]


@settings("task")
class TaskConfig:
    """What the models do, and when their answers differ; of classes the highest probability decides."""

    name: Maybe[TaskName] = setting(
        None,
        "What the models do: classification, detection or segmentation; auto: what their outputs show.",
        option="--task",
        metavar="auto|classification|detection|segmentation",
    )
    score: float = setting(
        0.25,
        "Detection: score from which on a box is reported, as in use.",
        option="--score-threshold",
        metavar="SCORE",
        gt=0,
        lt=1,
    )
    moved_below: float = setting(
        0.75,
        "Detection: IoU of two boxes of one object below which it has moved; below 0.5 it is lost and gained.",
        option="--moved-below",
        metavar="IOU",
        gt=0.5,
        le=1,
    )
    moved_pixels: Maybe[float] = setting(
        None,
        "Detection: a box has also moved where an edge of it is further away than so many pixels; none: IoU alone.",
        option="--moved-pixels",
        metavar="none|PIXELS",
        gt=0,
    )
    iou_below: float = setting(
        0.5,
        "Segmentation: mean IoU of two maps of classes below which they differ.",
        option="--iou-below",
        metavar="IOU",
        gt=0,
        le=1,
    )
    class_share: float = setting(
        0.02,
        "Segmentation: they also differ where a class covers so much of one map, and less than a quarter of that in "
        "the other.",
        option="--class-share",
        metavar="SHARE",
        gt=0,
        lt=0.2,
    )
