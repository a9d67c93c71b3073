"""What a check measures of two maps of classes: pixels with other classes, classes that are lost, IoU with masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from diffgen.gate.average_precision import drawn, drop_interval
from diffgen.gate.boxes import ClusteredRate, PrecisionDrop
from diffgen.gate.measurements import OnThese
from diffgen.metrics.intervals import reach_of_mean
from diffgen.tasks.segmentation import Differences
from diffgen.types import Int64Array


class PixelRate(ClusteredRate):
    """Of the cells of maps."""

    noun: ClassVar[tuple[str, str]] = ("pixel", "pixels")


class ClassRate(ClusteredRate):
    """Of the classes that cover enough of a picture."""

    noun: ClassVar[tuple[str, str]] = ("class of a picture", "classes of pictures")


@dataclass(frozen=True)
class MapDistance(OnThese):
    """1 less the mean IoU of both maps of a picture, on average over ``of`` pictures.

    Attributes:
        distance: 0..1.
        low, high: ends of the interval of that average.
    """

    distance: float
    low: float
    high: float
    of: int
    in_points: ClassVar[bool] = False
    noun: ClassVar[tuple[str, str]] = ("picture", "pictures")

    def _possible(self) -> bool:
        return self.of > 0

    @property
    def share(self) -> float:
        return self.distance

    @property
    def text(self) -> str:
        return f"{1 - self.distance:.3f}"

    @property
    def interval_text(self) -> str:
        return f"{1 - self.high:.3f} to {1 - self.low:.3f}"


class IouDrop(PrecisionDrop):
    """By how much the mean IoU of the candidate with known masks is lower; of ``base`` and ``candidate``, 0..1."""

    measure: ClassVar[str] = "mean IoU"


@dataclass(frozen=True, eq=False)
class MapAnswers:
    """How the maps of base and candidate differ on N pictures.

    Attributes:
        changed: int64 (N,), how many of these have other classes.
        iou: float64 (N,), the mean IoU.
        had: int64 (N, 2), how many classes cover enough of each map.
        lost: int64 (N, 2), how many of these the other map hardly has.
        known: int64 (n, 2, 3, C), of the pictures with a mask, see :func:`against_masks`; None: it was not looked at.
    """

    cells: int
    changed: Int64Array
    iou: NDArray[np.float64]
    had: Int64Array
    lost: Int64Array
    known: Int64Array | None = None

    @classmethod
    def of(cls, parts: Sequence[Differences], cells: int, known: Sequence[Int64Array] = ()) -> MapAnswers:
        """What was seen of one lot of pictures after the other."""
        changed = np.concatenate([each.changed for each in parts])
        had, lost = (
            np.concatenate([getattr(each, name).sum(axis=2) for each in parts]).astype(np.int64)
            for name in ("had", "lost")
        )
        iou = np.concatenate([each.iou for each in parts])
        counts = np.concatenate(known) if known else None
        return cls(cells, np.rint(changed * cells).astype(np.int64), iou, had, lost, counts)

    def pixels(self) -> PixelRate:
        """Cells to which the candidate gives another class."""
        return PixelRate.of_pictures(self.changed, np.full(len(self.changed), self.cells))

    def distance(self) -> MapDistance:
        """How far the maps are apart."""
        apart = 1 - self.iou
        mean = float(apart.mean())
        reach = reach_of_mean(float(np.square(apart - mean).sum()), len(apart))
        return MapDistance(mean, max(0.0, mean - reach), min(1.0, mean + reach), len(apart))

    def iou_drop(self) -> IouDrop | None:
        """How much worse the candidate's maps fit the known masks, by the classes in these; None without any."""
        if self.known is None or len(self.known) == 0:
            return None
        means = mean_iou(self.known)
        return IouDrop(float(means[0, 0]), float(means[0, 1]), *drop_interval(means[1:]), len(self.known))

    def lost_classes(self) -> ClassRate:
        """Classes of the base that the candidate hardly has."""
        return ClassRate.of_pictures(self.lost[:, 0], self.had[:, 0])

    def gained_classes(self) -> ClassRate:
        """Classes of the candidate that the base hardly has."""
        return ClassRate.of_pictures(self.lost[:, 1], self.had[:, 1])


def against_masks(maps: Int64Array, truth: Sequence[Int64Array | None], classes: int) -> Int64Array:
    """Counts of cells in the pictures that have a mask, and in these where it says what is there.

    Args:
        maps: int64 (N, M, h, w), of M models.
        truth: of each picture int64 (h, w), below 0 where nobody knows, or None.
        classes: C.

    Returns:
        int64 (n, M, 3, C): cells of each class that a model has right, that it gives the class, and that have it.
    """
    found = []
    for both, known in zip(maps, truth, strict=True):
        if known is not None and (there := known >= 0).any():
            true, said = known[there], both[:, there]
            found.append([[each[each == true], each, true] for each in said])
    counts = [[[np.bincount(kind, minlength=classes) for kind in each] for each in one] for one in found]
    return np.array(counts, dtype=np.int64).reshape(-1, maps.shape[1], 3, classes)


def mean_iou(known: Int64Array) -> NDArray[np.float64]:
    """With masks, over the classes in these: of the pictures, and of each lot drawn from them again.

    Args:
        known: int64 (n, M, 3, C), of :func:`against_masks`; n at least 1.

    Returns:
        float64 (1 + R, M).
    """
    hits, said, there = np.moveaxis(np.tensordot(drawn(len(known)), known, axes=1), 2, 0)
    iou = np.divide(hits, said + there - hits, out=np.zeros_like(hits), where=there > 0)
    return np.asarray(iou.sum(axis=2) / (there > 0).sum(axis=2))
