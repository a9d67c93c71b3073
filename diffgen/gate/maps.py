"""What a check measures of two maps of classes: pixels with other classes, and classes that are lost or gained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from diffgen.gate.boxes import ClusteredRate
from diffgen.gate.measurements import Share
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
class MapDistance(Share):
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

    def interval_on(self, of: int) -> tuple[float, float]:
        """That on the pictures that there are."""
        return self.low, self.high

    @property
    def text(self) -> str:
        return f"{1 - self.distance:.3f}"

    @property
    def interval_text(self) -> str:
        return f"{1 - self.high:.3f} to {1 - self.low:.3f}"


@dataclass(frozen=True, eq=False)
class MapAnswers:
    """How the maps of base and candidate differ on N pictures.

    Attributes:
        cells: of a map.
        changed: int64 (N,), how many of these have other classes.
        iou: float64 (N,), the mean IoU.
        had: int64 (N, 2), how many classes cover enough of each map.
        lost: int64 (N, 2), how many of these the other map hardly has.
    """

    cells: int
    changed: Int64Array
    iou: NDArray[np.float64]
    had: Int64Array
    lost: Int64Array

    @classmethod
    def of(cls, parts: Sequence[Differences], cells: int) -> MapAnswers:
        """What was seen of one lot of pictures after the other."""
        changed = np.concatenate([each.changed for each in parts])
        had, lost = (
            np.concatenate([getattr(each, name).sum(axis=2) for each in parts]).astype(np.int64)
            for name in ("had", "lost")
        )
        iou = np.concatenate([each.iou for each in parts])
        return cls(cells, np.rint(changed * cells).astype(np.int64), iou, had, lost)

    def pixels(self) -> PixelRate:
        """Cells to which the candidate gives another class."""
        return PixelRate.of_pictures(self.changed, np.full(len(self.changed), self.cells))

    def distance(self) -> MapDistance:
        """How far the maps are apart."""
        apart = 1 - self.iou
        mean = float(apart.mean())
        reach = reach_of_mean(float(np.square(apart - mean).sum()), len(apart))
        return MapDistance(mean, max(0.0, mean - reach), min(1.0, mean + reach), len(apart))

    def lost_classes(self) -> ClassRate:
        """Classes of the base that the candidate hardly has."""
        return ClassRate.of_pictures(self.lost[:, 0], self.had[:, 0])

    def gained_classes(self) -> ClassRate:
        """Classes of the candidate that the base hardly has."""
        return ClassRate.of_pictures(self.lost[:, 1], self.had[:, 1])
