"""What a check measures of two detectors: boxes that the candidate loses, gains, renames or moves, and precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from diffgen.gate.average_precision import drop_interval, mean_average_precision
from diffgen.gate.measurements import Share, points
from diffgen.metrics.intervals import clustered_interval
from diffgen.tasks.detection import GAINED, LOST, MOVED, NONE, RENAMED, VALUES, Detection
from diffgen.types import Float32Array, Int64Array


@dataclass(frozen=True)
class ClusteredRate(Share):
    """``count`` of ``of`` things, which lie in ``pictures`` of ``among`` pictures.

    Attributes:
        low, high: ends of the interval of the share; things in one picture are no independent ones.
    """

    count: int
    of: int
    pictures: int
    among: int
    low: float
    high: float
    in_points: ClassVar[bool] = False

    @classmethod
    def of_pictures(cls, found: Int64Array, of: Int64Array) -> Self:
        """How many things were found in each of N pictures, int64 (N,), among how many."""
        count, things = int(found.sum()), int(of.sum())
        low, high = clustered_interval(count, things, _design_effect(found, of))
        return cls(count, things, int((found > 0).sum()), len(found), low, high)

    def _possible(self) -> bool:
        return self.count <= self.of and self.pictures <= min(self.count, self.among)

    @property
    def share(self) -> float:
        """0 for nothing."""
        return self.count / self.of if self.of else 0.0

    def interval_on(self, of: int) -> tuple[float, float]:
        """Those on the things that there are: what more of them would show depends on their pictures."""
        return self.low, self.high

    @property
    def text(self) -> str:
        return (
            f"{1000 * self.share:.1f} of 1,000 {self.noun[1]} ({self.count:,} of {self.of:,}, in {self.pictures:,} of "
            f"{self.among:,} pictures)"
        )


class BoxRate(ClusteredRate):
    """Of boxes."""

    noun: ClassVar[tuple[str, str]] = ("box", "boxes")


@dataclass(frozen=True)
class PrecisionDrop(Share):
    """By how much the mean average precision of the candidate is lower, on ``of`` pictures with known boxes.

    Attributes:
        base, candidate: of each, 0..1, over IoUs from 0.5 to 0.95.
        low, high: ends of the interval, by drawing the pictures again.
    """

    base: float
    candidate: float
    low: float
    high: float
    of: int
    noun: ClassVar[tuple[str, str]] = ("picture", "pictures")

    def _possible(self) -> bool:
        return self.of > 0

    @property
    def share(self) -> float:
        return self.base - self.candidate

    def interval_on(self, of: int) -> tuple[float, float]:
        """Those on the pictures that there are."""
        return self.low, self.high

    @property
    def text(self) -> str:
        return f"{points(self.share)} (mAP {100 * self.base:.1f}, now {100 * self.candidate:.1f})"


def _design_effect(found: Int64Array, of: Int64Array) -> float:
    """How many things are worth one, as those of a picture are alike: variance of a ratio over that of a share.

    Where none was found, or all were, those of a picture count as one.
    """
    count, things, pictures = int(found.sum()), int(of.sum()), int((of > 0).sum())
    if pictures < 2 or count in (0, things):
        return max(1.0, things / max(1, pictures))
    share = count / things
    spread = pictures / (pictures - 1) * np.square(found - share * of).sum()
    return max(1.0, float(spread / (things * share * (1 - share))))


@dataclass(frozen=True, eq=False)
class BoxAnswers:
    """What base and candidate find in N pictures.

    Attributes:
        task: says when two boxes differ.
        answers: float32 (N, 2, P * 6).
        margin: a difference counts where each model is more decided than this.
        truth: known boxes of each picture, float32 (n, 5), corners and class; None: none are known.
    """

    task: Detection
    answers: Float32Array
    margin: float
    truth: Sequence[Float32Array] | None = None

    @cached_property
    def _counts(self) -> Int64Array:
        return self.task.counts(self.answers, self.margin)

    def _rate(self, kind: int, among: int = NONE) -> BoxRate:
        return BoxRate.of_pictures(self._counts[:, kind], self._counts[:, among])

    def lost(self) -> BoxRate:
        """Boxes of the base that the candidate has not."""
        return self._rate(LOST)

    def gained(self) -> BoxRate:
        """Boxes of the candidate that the base has not."""
        return self._rate(GAINED, among=-1)

    def renamed(self) -> BoxRate:
        """Boxes of the base to which the candidate gives another class."""
        return self._rate(RENAMED)

    def moved(self) -> BoxRate:
        """Boxes of the base that the candidate has elsewhere."""
        return self._rate(MOVED)

    def precision_drop(self) -> PrecisionDrop | None:
        """None without known boxes."""
        if self.truth is None or not any(map(len, self.truth)):
            return None
        boxes = self.answers.reshape(len(self.answers), 2, -1, VALUES)
        (base, candidate), resampled = mean_average_precision(boxes, self.truth)
        return PrecisionDrop(float(base), float(candidate), *drop_interval(resampled), len(boxes))
