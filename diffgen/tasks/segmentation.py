"""Segmentation: a model's answer is a map of classes, and two models differ on the largest region with other classes.

Two maps differ where their mean IoU is low, or where one has a class that the other hardly has. Then the largest
connected region is contested in which one model says one class throughout, and the other another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from diffgen.config.task import TaskName
from diffgen.tasks.base import Task
from diffgen.types import BoolArray, Float32Array, Int64Array

SIDE = 128  # cells of the longer side of a map, at most
NO_ANSWER = -1  # in every cell of a map
_HARDLY = 0.25  # share of what a class must cover to be there, below which it is not
_CLEARLY = 5  # times that, from which on it is there as clearly as can be
_BARELY = 1e-6  # by which a difference that counts lies above 0.5, and one that does not below
_AT_ONCE = 64  # pictures


def map_sides(sides: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of the maps of images of a height and width: a cell for each pixel, or larger ones."""
    scale = min(1.0, SIDE / max(sides))
    return max(1, round(sides[0] * scale)), max(1, round(sides[1] * scale))


@dataclass(frozen=True)
class Contested:
    """How M models differ on that region of each of N pictures on which they differ most.

    Attributes:
        vectors: float32 (N, M, C), what each says of it; see :meth:`diffgen.tasks.base.Task.contested`.
        regions: bool (N, h, w), where it is; nowhere where no cell differs.
        pairs: int64 (N, 2), the two models that are furthest apart.
    """

    vectors: Float32Array
    regions: BoolArray
    pairs: Int64Array


@dataclass(frozen=True)
class Differences:
    """How the maps of two models differ, for each of N pictures.

    Attributes:
        iou: float64 (N,), mean IoU over the classes that cover enough of one of the two.
        changed: float64 (N,), share of the cells with other classes.
        had: bool (N, 2, C), which classes cover enough of each map.
        lost: bool (N, 2, C), which of these the other map hardly has.
        degrees: float64 (N,), above 0.5 where the two differ, the clearer the further.
        deciding: int64 (N,), the class that is lost or gained where that decides, and by which of the two models it is
            had; -1: the mean IoU decides.
        having: int64 (N,), the number of the map, 0 or 1, that has it.
    """

    iou: NDArray[np.float64]
    changed: NDArray[np.float64]
    had: BoolArray
    lost: BoolArray
    degrees: NDArray[np.float64]
    deciding: Int64Array
    having: Int64Array


@dataclass(frozen=True)
class Segmentation(Task):
    """When maps of classes disagree.

    Attributes:
        classes: C names; a cell of a map is a number of them.
        iou_below: mean IoU below which two maps differ.
        class_share: they also differ where a class covers so much of one, and less than a quarter of that in the other.
    """

    classes: tuple[str, ...]
    sides: tuple[int, int]
    iou_below: float = 0.5
    class_share: float = 0.02

    name: ClassVar[TaskName] = "segmentation"
    no_jury: ClassVar[str] = (
        "No jury: known masks of the real images say who is right, moved as the picture was changed; where none are "
        "known, what the models agree on in the real image."
    )

    @property
    def rule(self) -> str:
        """When two maps differ."""
        return (
            f"two maps of {self.sides[0]}x{self.sides[1]} cells differ where their mean IoU is below "
            f"{self.iou_below:g} (--iou-below), or a class covers {self.class_share:.2g} of one (--class-share) and "
            "less than a quarter of that in the other"
        )

    @property
    def words(self) -> tuple[str, ...]:
        """The classes."""
        return self.classes

    def numbers_in(self, answers: Float32Array) -> Float32Array:
        """The answers themselves."""
        return answers

    def contested(self, answers: Float32Array) -> Float32Array:
        """See :meth:`diffgen.tasks.base.Task.contested`; answers are float32 (N, M, h * w)."""
        return self.regions(answers).vectors

    def regions(self, answers: Float32Array) -> Contested:
        """What the models differ on most.

        Args:
            answers: float32 (N, M, h * w), classes of cells, row by row; ``NO_ANSWER`` in all cells of a map for none.
        """
        count, models = answers.shape[:2]
        vectors = np.zeros((count, models, len(self.classes)), dtype=np.float32)
        places = np.zeros((count, *self.sides), dtype=np.bool_)
        chosen = np.zeros((count, 2), dtype=np.int64)
        for start, maps in self._parts(answers):
            pairs = list(combinations(range(models), 2))
            differ = [self.differences(maps[:, list(pair)]) for pair in pairs]
            furthest = np.argmax([each.degrees for each in differ], axis=0)
            for row, best in enumerate(furthest.tolist()):
                of, pair = differ[best], pairs[best]
                region = self._largest(maps[row, list(pair)], int(of.deciding[row]), int(of.having[row]))
                if not region.any():
                    vectors[start + row, :, np.bincount(maps[row, 0].ravel()).argmax()] = 1
                    continue
                there = maps[row][:, region]
                said = of.degrees[row] * _shares(there[None], len(self.classes))[0]
                said[:, there[pair[0], 0]] += 1 - of.degrees[row]
                vectors[start + row], places[start + row], chosen[start + row] = said, region, pair
        silent = (answers == NO_ANSWER).all(axis=2)
        vectors[silent] = np.eye(1, len(self.classes), dtype=np.float32)[0]
        return Contested(vectors, places, chosen)

    def differences(self, maps: Int64Array) -> Differences:
        """How two maps of each of N pictures differ, int64 (N, 2, h, w)."""
        classes, cells = len(self.classes), self.sides[0] * self.sides[1]
        shares = _shares(maps.reshape(len(maps), 2, cells), classes)
        same = maps[:, 0] == maps[:, 1]
        rows = np.broadcast_to(np.arange(len(maps))[:, None, None], same.shape)
        found = np.bincount(rows[same] * classes + maps[:, 0][same], minlength=len(maps) * classes)
        both = found.reshape(len(maps), classes) / cells
        union = shares.sum(axis=1) - both
        most, least = shares.max(axis=1), shares.min(axis=1)
        counted = most >= np.minimum(self.class_share, most.max(axis=1, keepdims=True))
        ratio = np.divide(both, union, out=np.zeros_like(union), where=union > 0)
        iou = (ratio * counted).sum(axis=1) / counted.sum(axis=1)
        had = shares >= self.class_share
        lost = had & (shares[:, ::-1] < _HARDLY * self.class_share)
        enough, hardly = self.class_share, _HARDLY * self.class_share
        there = np.interp(most, (0, enough, _CLEARLY * enough), (0, 0.5, 1))
        missing = np.interp(least, (0, hardly, enough), (1, 0.5, 0))
        by_class = np.minimum(there, missing)
        by_iou = np.interp(iou, (0, self.iou_below, 1), (1, 0.5, 0))
        deciding = by_class.argmax(axis=1)
        by_class = by_class.max(axis=1)
        differ = (iou < self.iou_below) | lost.any(axis=(1, 2))
        degrees = np.maximum(by_class, by_iou)
        degrees = np.where(differ, np.maximum(degrees, 0.5 + _BARELY), np.minimum(degrees, 0.5 - _BARELY))
        having = np.take_along_axis(shares.argmax(axis=1), deciding[:, None], axis=1)[:, 0]
        return Differences(
            iou=iou,
            changed=1 - same.mean(axis=(1, 2)),
            had=had,
            lost=lost,
            degrees=degrees,
            deciding=np.where(by_class >= by_iou, deciding, -1),
            having=having,
        )

    def marks(self, answers: Float32Array) -> NDArray[np.int16]:
        """The maps of all models, and which region is contested (1), int16 (N, M + 1, h, w)."""
        maps = answers.reshape(*answers.shape[:2], *self.sides)
        return np.concatenate([maps, self.regions(answers).regions[:, None]], axis=1).astype(np.int16)

    def maps_of(self, answers: Float32Array) -> Int64Array:
        """int64 (N, M, h, w): what answers, float32 (N, M, h * w), say; without one the first class everywhere."""
        return np.maximum(answers, 0).astype(np.int64).reshape(*answers.shape[:2], *self.sides)

    def _parts(self, answers: Float32Array) -> Iterator[tuple[int, Int64Array]]:
        for start in range(0, len(answers), _AT_ONCE):
            yield start, self.maps_of(answers[start : start + _AT_ONCE])

    def _largest(self, maps: Int64Array, deciding: int, having: int) -> BoolArray:
        """bool (h, w): the largest region of two maps, int64 (2, h, w), in which each says one class, and not the same.

        Where a class decides, one in which the map that has it says it, if there is one.
        """
        from skimage.measure import label  # slow to import, and the report imports this module

        apart = maps[0] != maps[1]
        with_class = apart & (maps[having] == deciding)
        apart = with_class if with_class.any() else apart
        numbered = label(np.where(apart, maps[0] * len(self.classes) + maps[1] + 1, 0), connectivity=1)
        sizes = np.bincount(numbered.ravel())
        return np.asarray((numbered == 1 + sizes[1:].argmax()) & apart if len(sizes) > 1 else apart)


def _shares(maps: Int64Array, classes: int) -> NDArray[np.float64]:
    """float64 (N, M, C): which share of n cells each class covers, for int64 (N, M, n)."""
    count, models, cells = maps.shape
    numbers = np.arange(count * models)[:, None] * classes + maps.reshape(-1, cells)
    found = np.bincount(numbers.ravel(), minlength=count * models * classes)
    return found.reshape(count, models, classes) / cells
