"""A detector looks at its first images: which head it has, how it is fed, and what its classes are called."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from diffgen.config import DEFAULT_PREPROCESSING, Preprocessing
from diffgen.config.models import HeadKind
from diffgen.errors import UserError
from diffgen.models.class_names import background_in
from diffgen.models.detections import CLASS, BoxReader, as_boxes
from diffgen.models.detector_heads import Head, NoHeadError
from diffgen.models.inputs import ImageShape, PixelTransform
from diffgen.models.outputs import BoxesInsteadError, find_fault
from diffgen.models.shapes import check_single, find_layout
from diffgen.models.wording import counted
from diffgen.sampling import random_rows
from diffgen.types import UInt8Array

if TYPE_CHECKING:
    from diffgen.models.base import BlackBox

_LOOKED_AT = 16  # images, for each of which there may be thousands of candidates
_COLOURS = 3  # channels


def prepare_detector(
    box: BlackBox, images: torch.Tensor | UInt8Array, shape: ImageShape, *, instead: BoxesInsteadError | None = None
) -> None:
    """As :meth:`~.base.BlackBox.prepare`, of a detector.

    Args:
        box: the model.
        images: of the right kind.
        shape: (C, H, W) of these.
        instead: why it is no classifier; raised where it turns out to be no detector either.
    """
    before, names, every = box.preprocessing, box._all_names or box.own_class_names, images
    if len(images) > _LOOKED_AT:
        images = images[np.sort(random_rows(len(images), _LOOKED_AT))]
    box._boxes, box._placing = BoxReader(box.name), None
    box.preprocessing = replace(before, outputs="boxes")
    try:
        with torch.inference_mode():
            layout, _ = find_layout(box, images, shape)
            assert isinstance(box._transform, PixelTransform)
            head = box._boxes.find(box._transform.shape[1:], names, box.preprocessing)
    except UserError as error:
        box.preprocessing = before
        if instead is not None and isinstance(error, NoHeadError):
            raise instead from error
        raise
    fed = feeding_of(head.kind, shape[0])
    said = box._said.above(box.declared)
    box.preprocessing = replace(
        box._admit(said.over(fed).over(DEFAULT_PREPROCESSING)),
        size=box.preprocessing.size,
        layout=layout,
        outputs="boxes",
        head=head.kind,
        background="first" if box._boxes.from_one else "none",
    )
    if not head.classes and not names:
        images = every  # which show what classes there are
    with torch.inference_mode():
        _, raw = find_layout(box, images, shape)
        check_single(box, images)
    assert isinstance(box._transform, PixelTransform)
    box._kind, box._columns, box._placing = "boxes", raw.shape[1], box._transform
    finite = torch.isfinite(raw).all(dim=1)
    fault = find_fault(raw[finite] if box.lenient and finite.any() else raw, "boxes")
    if fault is not None:
        raise UserError(f"On real images, model {box.name} {fault}")
    _name_classes(box, names, head.classes, 1 + int(as_boxes(raw)[..., CLASS].nan_to_num().max()))
    suppressed = "" if head.finished else f"; diffgen suppresses what overlaps by {box.preprocessing.nms_iou:g}"
    box.answers_with = f"boxes, of {head.words}{suppressed}"
    remarks = [feeding_in_words(fed, said, box.name, head)]
    if not bool((as_boxes(raw)[..., CLASS] >= 0).any()):
        remarks.append(
            f"Model {box.name} finds nothing at all in {counted(len(raw), 'real image')}, not even with a score "
            f"of {box.preprocessing.score_floor:g}; look at its pre-processing with 'diffgen inspect'."
        )
    others = [each for each in box.remarks if each not in box._own_remarks]
    box._own_remarks = tuple(filter(None, remarks))
    box.remarks = (*others, *box._own_remarks)


def _name_classes(box: BlackBox, names: tuple[str, ...], told: int, seen: int) -> None:
    """Take over the class names of a detector, as far as they are those of its classes.

    Args:
        box: the model.
        names: or none; one for the background may be among them.
        told: how many classes its head tells, or 0.
        seen: the least number of classes that its answers so far can have.

    Raises:
        UserError: they are other numbers, and somebody has given the names.
    """
    where, given = background_in(names), names
    if where == "first" and box._boxes.from_one:
        names = names[1:]
    elif where == "last" and told == len(names) - 1:
        names = names[:-1]
    if names and (told not in (0, len(names)) or seen > len(names)):
        if not box._named_by_file:
            raise UserError(
                f"Model {box.name} finds objects of {told or seen} classes or more but its class_names "
                f"are {len(names)}; give one for each class, with --background first if its classes are counted "
                "from 1."
            )
        given = names = ()  # they name something else than the classes
    box._all_names, box.class_names = given, names
    box.num_classes = told or len(names) or max(seen, 1)


# -- how the makers of detectors feed them ---------------------------------------------------------------------------

_ULTRALYTICS = Preprocessing(fitting="letterbox", antialias=False)
_YOLOX = Preprocessing(fitting="letterbox-top-left", antialias=False, scale="0..255", mean=(), std=())
_FED: dict[HeadKind, Preprocessing] = {
    **{"yolov8": _ULTRALYTICS, "yolov5": _ULTRALYTICS, "end-to-end": _ULTRALYTICS},
    "yolox": _YOLOX,
}


def feeding_of(head: HeadKind, channels: int) -> Preprocessing:
    """How detectors with such a head are fed by those who made it, where that is not the usual way.

    Args:
        head: yolov8, yolov5 and end-to-end are taken for Ultralytics' own.
        channels: of the images.
    """
    fed = _FED.get(head, Preprocessing())
    return replace(fed, channels="bgr") if head == "yolox" and channels == _COLOURS else fed


def feeding_in_words(fed: Preprocessing, said: Preprocessing, name: str, head: Head) -> str:
    """A sentence on what :func:`feeding_of` made of a model's pre-processing, or nothing."""
    guessed = [
        f"{each.name} {getattr(fed, each.name)}"
        for each in fields(fed)
        if getattr(fed, each.name) not in (None, (), False) and getattr(said, each.name) is None
    ]
    if not guessed:
        return ""
    return (
        f"Model {name} has {head.words} and is fed as its makers do it ({', '.join(guessed)}), since nobody says "
        "otherwise; 'diffgen inspect' with data that has boxes tells whether that is right."
    )
