"""The answer of a detector: an array of fixed size, made from whatever its head gives.

Boxes of an image are float32 (P, 6): x1, y1, x2, y2 in pixels of the image as diffgen hands it over, the score, and the
number of the class; the highest score first, and after the last box rows of score 0 and class -1. A model's answer to N
images is (N, P * 6), so that whatever stores and hands on rows of values does so with boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, overload

import torch

from diffgen.config import Preprocessing
from diffgen.models.class_names import background_in
from diffgen.models.detector_heads import (
    HEADS,
    Candidates,
    Head,
    check_count,
    find_head,
)
from diffgen.models.inputs import PixelTransform
from diffgen.models.maps import looks_like_maps
from diffgen.models.named_outputs import Outputs, named_outputs
from diffgen.models.outputs import NO_BOX
from diffgen.types import Float32Array

VALUES = 6  # of a box
SCORE, CLASS = 4, 5
# Candidates of an image that suppression looks at; Ultralytics takes 30,000, of which few have scores above the floor.
_MOST_CANDIDATES = 8192


@overload
def as_boxes(answers: torch.Tensor) -> torch.Tensor: ...
@overload
def as_boxes(answers: Float32Array) -> Float32Array: ...
def as_boxes(answers: torch.Tensor | Float32Array) -> torch.Tensor | Float32Array:
    """float32 (N, P, 6) from the answers of a detector, (N, P * 6); no copy."""
    return answers.reshape(len(answers), answers.shape[1] // VALUES, VALUES)


class BoxReader:
    """Reads the answers of one model, once it is known which head it has.

    Args:
        name: of the model, for messages.

    Attributes:
        head: None while answers are only looked at, to find out.
        from_one: classes are counted from 1.
        seen: outputs that were only looked at, and to how many images they belong.
        most_at_once: images that the model is to be asked about at once.
    """

    outputs: ClassVar[Literal["boxes"]] = "boxes"
    most_at_once: ClassVar[int] = 2**20

    def __init__(self, name: str) -> None:
        self.head: Head | None = None
        self.from_one = False
        self.seen: list[tuple[Outputs, int]] = []
        self._name = name

    def rows(self, answer: object, count: int, transform: PixelTransform, preprocessing: Preprocessing) -> torch.Tensor:
        """Boxes as a model's answer.

        Args:
            answer: to ``count`` images.
            preprocessing: nothing in it is None.

        Returns:
            float32 (count, P * 6), on the CPU. An image for which a value was not finite has NaN everywhere. While the
            head is not known, (count, 1).

        Raises:
            UserError: the model has not answered for each image.
        """
        outputs = named_outputs(answer)
        if self.head is not None or not looks_like_maps(outputs):
            check_count(outputs, count, self._name)
        if self.head is None:
            self.seen.append((outputs, count))
            return torch.zeros((count, 1))
        found = self.head.decoded(outputs, count, transform.shape[1:], from_one=self.from_one)
        iou = None if self.head.finished else preprocessing.nms_iou
        return _rows(found, transform, iou, preprocessing.score_floor or 0.0, preprocessing.most_boxes or 1)

    def numbers_in(self, rows: torch.Tensor) -> torch.Tensor:
        """The classes in answers, float32 (N, P)."""
        return as_boxes(rows)[..., CLASS]

    def find(self, size: tuple[int, int], names: Sequence[str], preprocessing: Preprocessing) -> Head:
        """Find the head on the answers so far, and from which number its classes are counted.

        Args:
            size: height and width of what the model was handed.
            names: of its classes, or none; one for the background may be among them.
            preprocessing: says of ``head`` and ``background`` what is known.

        Raises:
            UserError: it is no head that is known.
        """
        kind = next((each for each in HEADS if each == preprocessing.head), None)
        where = background_in(names) if preprocessing.background == "auto" else preprocessing.background
        # of torchvision's classes 0 is the background, which is never found
        self.from_one = where == "first"
        self.head = find_head([each for each, _ in self.seen], size, classes=len(names), said=kind, name=self._name)
        if self.head.kind == "torchvision" and preprocessing.background == "auto":
            labels = [
                each.classes
                for outputs, count in self.seen
                for each in self.head.decoded(outputs, count, size, from_one=False)
            ]
            self.from_one = not bool((torch.cat(labels) < 1).any())
        self.seen = []
        return self.head


def _rows(
    found: Sequence[Candidates], transform: PixelTransform, nms_iou: float | None, score_floor: float, most_boxes: int
) -> torch.Tensor:
    rows = torch.tensor(NO_BOX).repeat(len(found), most_boxes, 1)
    for place, each in zip(rows, found, strict=True):
        values = torch.cat([each.boxes, each.scores[:, None], each.classes[:, None]], dim=1).cpu()
        if not torch.isfinite(values).all():
            place.fill_(torch.nan)
            continue
        values = values[(values[:, SCORE] >= score_floor) & (values[:, CLASS] >= 0)]
        values = values[values[:, SCORE].argsort(descending=True, stable=True)]
        if nms_iou is not None:
            values = _suppressed(values[:_MOST_CANDIDATES], nms_iou)
        values[:, :4] = transform.to_image(values[:, :4])
        # what lies outside of the picture, as beside a letterboxed one, is no box
        values = values[(values[:, 2] > values[:, 0]) & (values[:, 3] > values[:, 1])][:most_boxes]
        place[: len(values)] = values
    return rows.flatten(1)


def _suppressed(values: torch.Tensor, iou: float) -> torch.Tensor:
    """Rows without those that overlap with a better one of the same class."""
    from torchvision.ops import batched_nms

    return values[batched_nms(values[:, :4], values[:, SCORE], values[:, CLASS].long(), iou)]
