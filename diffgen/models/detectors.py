"""What is no classifier looks at its first images: which head it has, how it is fed, what its classes are called."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from diffgen.config import DEFAULT_PREPROCESSING, Preprocessing
from diffgen.config.models import HeadKind, MapKind
from diffgen.errors import UserError
from diffgen.models.class_names import background_in
from diffgen.models.detections import BoxReader
from diffgen.models.detector_heads import NoHeadError, looks_like_boxes
from diffgen.models.inputs import ImageShape, PixelTransform
from diffgen.models.maps import MapReader, are_maps
from diffgen.models.outputs import find_fault
from diffgen.models.shapes import check_single, find_layout
from diffgen.models.wording import NoClassesError, counted
from diffgen.sampling import random_rows
from diffgen.types import UInt8Array

if TYPE_CHECKING:
    from diffgen.models.base import BlackBox

_LOOKED_AT = 16  # images, for each of which there may be thousands of candidates
_COLOURS = 3  # channels


def prepare_reader(
    box: BlackBox, images: torch.Tensor | UInt8Array, shape: ImageShape, *, instead: NoClassesError | None = None
) -> None:
    """As :meth:`~.base.BlackBox.prepare`, of a detector or of a model that gives maps.

    Args:
        shape: (C, H, W) of these.
        instead: why it is no classifier; raised where it turns out to be nothing else either.
    """
    before, names, every = box.preprocessing, box._all_names or box.own_class_names, images
    if len(images) > _LOOKED_AT:
        images = images[np.sort(random_rows(len(images), _LOOKED_AT))]
    looking = BoxReader(box.name)
    box._reader, box._placing = looking, None
    # any of the two: then a model's process gives all of its outputs
    box.preprocessing = replace(before, outputs="boxes" if box.classifies else before.outputs)
    try:
        with torch.inference_mode():
            layout, _ = find_layout(box, images, shape)
            assert isinstance(box._transform, PixelTransform)
            size = box._transform.shape[1:]
            if before.outputs == "maps" or (before.outputs != "boxes" and are_maps(*looking.seen[0], size)):
                box._reader = MapReader(box.name, looking.seen)
            elif instead is not None and not looks_like_boxes(*looking.seen[0]):
                raise instead
            head = box._reader.find(size, names, box.preprocessing)
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
        outputs=box._reader.outputs,
        head=head.kind,
        background="first" if box._reader.from_one else "none",
    )
    if not head.classes and not names:
        images = every  # which show what classes there are
    box.batch_size = min(box.batch_size, box._reader.most_at_once)
    with torch.inference_mode():
        _, raw = find_layout(box, images, shape)
        check_single(box, images)
    assert isinstance(box._transform, PixelTransform)
    box._kind, box._columns, box._placing = box._reader.outputs, raw.shape[1], box._transform
    finite = torch.isfinite(raw).all(dim=1)
    fault = find_fault(raw[finite] if box.lenient and finite.any() else raw, box._kind)
    if fault is not None:
        raise UserError(f"On real images, model {box.name} {fault}")
    numbers = box._reader.numbers_in(raw)
    _name_classes(box, names, head.classes, 1 + int(numbers.nan_to_num().max()))
    suppressed = "" if head.finished else f"; diffgen suppresses what overlaps by {box.preprocessing.nms_iou:g}"
    box.answers_with = f"{box._kind}, of {head.words}{suppressed}"
    remarks = [feeding_in_words(fed, said, box.name, head.words)]
    if not bool((numbers >= 0).any()):
        remarks.append(
            f"Model {box.name} finds nothing at all in {counted(len(raw), 'real image')}, not even with a score "
            f"of {box.preprocessing.score_floor:g}; look at its pre-processing with 'diffgen inspect'."
        )
    others = [each for each in box.remarks if each not in box._own_remarks]
    box._own_remarks = tuple(filter(None, remarks))
    box.remarks = (*others, *box._own_remarks)


def _name_classes(box: BlackBox, names: tuple[str, ...], told: int, seen: int) -> None:
    """Take over the class names of a prepared model, as far as they are those of its classes.

    Args:
        names: or none; of a detector one for the background may be among them, which is a class of a map.
        told: how many classes its head tells, or 0.
        seen: the least number of classes that its answers so far can have.

    Raises:
        UserError: they are other numbers, and somebody has given the names.
    """
    where, given = background_in(names) if box.detects else "none", names
    if where == "first" and box._reader.from_one:
        names = names[1:]
    elif where == "last" and told == len(names) - 1:
        names = names[:-1]
    elif not box.detects and (told, len(names)) == (2, 1):
        names = ("background", *names)
    if names and (told not in (0, len(names)) or seen > len(names)):
        if not box._named_by_file:
            what, how = ("finds objects", "with --background first if its classes are counted from 1")
            if not box.detects:
                what, how = "gives maps", "the background among them"
            raise UserError(
                f"Model {box.name} {what} of {told or seen} classes or more but its class_names are {len(names)}; give "
                f"one for each class, {how}."
            )
        given = names = ()  # they name something else than the classes
    box._all_names, box.class_names = given, names
    box.num_classes = told or len(names) or max(seen, 1 if box.detects else 2)


# -- how the makers of detectors feed them ---------------------------------------------------------------------------

_ULTRALYTICS = Preprocessing(fitting="letterbox", antialias=False)
_YOLOX = Preprocessing(fitting="letterbox-top-left", antialias=False, scale="0..255", mean=(), std=())
_FED: dict[HeadKind | MapKind, Preprocessing] = {
    **{"yolov8": _ULTRALYTICS, "yolov5": _ULTRALYTICS, "end-to-end": _ULTRALYTICS},
    "yolox": _YOLOX,
}


def feeding_of(head: HeadKind | MapKind, channels: int) -> Preprocessing:
    """How detectors with such a head are fed by those who made it, where that is not the usual way.

    Args:
        head: yolov8, yolov5 and end-to-end are taken for Ultralytics' own.
    """
    fed = _FED.get(head, Preprocessing())
    return replace(fed, channels="bgr") if head == "yolox" and channels == _COLOURS else fed


def feeding_in_words(fed: Preprocessing, said: Preprocessing, name: str, head: str) -> str:
    """A sentence on what :func:`feeding_of` made of a model's pre-processing, or nothing."""
    guessed = [
        f"{each.name} {getattr(fed, each.name)}"
        for each in fields(fed)
        if getattr(fed, each.name) not in (None, (), False) and getattr(said, each.name) is None
    ]
    if not guessed:
        return ""
    return (
        f"Model {name} has {head} and is fed as its makers do it ({', '.join(guessed)}), since nobody says "
        "otherwise; 'diffgen inspect' with data that has boxes tells whether that is right."
    )
