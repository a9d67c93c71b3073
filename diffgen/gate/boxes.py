"""What a check measures of two detectors: boxes that the candidate loses, gains, renames or moves, and precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from diffgen.gate.average_precision import drop_interval, mean_average_precision
from diffgen.gate.measurements import OnThese, Share, percent, points
from diffgen.metrics.intervals import clustered_interval, reach_of_mean
from diffgen.tasks.detection import GAINED, LOST, MOVED, NONE, RENAMED, VALUES, Detection
from diffgen.types import Float32Array, Int64Array


@dataclass(frozen=True)
class ClusteredRate(OnThese):
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
class PrecisionDrop(OnThese):
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
    measure: ClassVar[str] = "mAP"

    def _possible(self) -> bool:
        return self.of > 0

    @property
    def share(self) -> float:
        return self.base - self.candidate

    @property
    def text(self) -> str:
        return f"{points(self.share)} ({self.measure} {100 * self.base:.1f}, now {100 * self.candidate:.1f})"


@dataclass(frozen=True)
class ErrorRise(OnThese):
    """How many more mistakes the candidate makes at the threshold, of ``of`` that the base can be right or wrong about.

    These are the boxes that it reports and the objects that it misses. A box that is no object is one mistake, and so
    is an object that is missed, or found as one of another class.

    Attributes:
        base, candidate: mistakes of each.
        low, high: ends of the interval, -1..1; boxes of one picture are no independent ones.
    """

    base: int
    candidate: int
    of: int
    low: float
    high: float
    noun: ClassVar[tuple[str, str]] = ("box", "boxes")

    def _possible(self) -> bool:
        return self.base <= self.of

    @property
    def share(self) -> float:
        return (self.candidate - self.base) / self.of if self.of else 0.0

    @property
    def text(self) -> str:
        return f"{points(self.share)} ({self.base:,} mistakes in {self.of:,} boxes, now {self.candidate:,})"


@dataclass(frozen=True)
class BoxShift(Share):
    """Where the candidate has the boxes that both report, the mean of ``of`` pictures.

    Attributes:
        right, down: in shares of the width and of the height of a box, -1..1.
        reach: half of the interval of either.
    """

    right: float
    down: float
    reach: float
    of: int
    in_points: ClassVar[bool] = False
    noun: ClassVar[tuple[str, str]] = ("picture", "pictures")

    def _possible(self) -> bool:
        return self.reach >= 0

    @property
    def share(self) -> float:
        """The larger one of the two, 0..1."""
        return max(abs(self.right), abs(self.down))

    def interval_on(self, of: int) -> tuple[float, float]:
        """That on the pictures that there are."""
        return max(0.0, self.share - self.reach), min(1.0, self.share + self.reach)

    @property
    def text(self) -> str:
        across, along = "right" if self.right >= 0 else "left", "down" if self.down >= 0 else "up"
        return f"{percent(abs(self.right))} of the width {across}, {percent(abs(self.down))} of the height {along}"


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
        truth: known boxes of each picture, float32 (n, 5), corners and class; None where nobody knows them.
    """

    task: Detection
    answers: Float32Array
    margin: float
    truth: Sequence[Float32Array | None] | None = None

    @cached_property
    def _known(self) -> tuple[Float32Array, list[Float32Array]]:
        """The answers to those pictures whose boxes are known, and these boxes."""
        known = [(row, each) for row, each in enumerate(self.truth or ()) if each is not None]
        return self.answers[[row for row, _ in known]], [each for _, each in known]

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

    def shift(self) -> BoxShift | None:
        """None where fewer than two pictures have boxes that both report."""
        shifts = self.task.shifts(self.answers).astype(np.float64)
        shifts = shifts[np.isfinite(shifts[:, 0])]
        if len(shifts) < 2:
            return None
        mean = shifts.mean(axis=0)
        reach = reach_of_mean(np.square(shifts - mean).sum(axis=0).max(), len(shifts))
        return BoxShift(float(mean[0]), float(mean[1]), reach, len(shifts))

    def error_rise(self) -> ErrorRise | None:
        """None without known boxes."""
        answers, truth = self._known
        pictures = len(answers)
        if not any(map(len, truth)) or pictures < 2:
            return None
        most = max(answers.shape[2] // VALUES, *map(len, truth))
        # what an object is and what a model reports are held against each other as two models are
        both = np.tile(np.array([0, 0, 0, 0, 0, -1], dtype=np.float32), (2, pictures, 2, most, 1))
        for model, said in enumerate(np.moveaxis(answers.reshape(pictures, 2, -1, VALUES), 1, 0)):
            both[model, :, 1, : said.shape[1]] = said
        for row, objects in enumerate(truth):
            both[:, row, 0, : len(objects)] = np.insert(objects, 4, 1, axis=1)
        counts = [self.task.counts(each.reshape(pictures, 2, -1)) for each in both]
        base, candidate = (each[:, [LOST, GAINED, RENAMED]].sum(axis=1) for each in counts)
        of = counts[0][:, LOST] + counts[0][:, -1]
        more, boxes = candidate - base, int(of.sum())
        share = int(more.sum()) / boxes
        # no surer than if one picture alone had one mistake more
        squares = max(1.0, float(np.square(more - share * of).sum()))
        reach = reach_of_mean(squares, pictures) * pictures / boxes
        low, high = (float(np.clip(end, -1, 1)) for end in (share - reach, share + reach))
        return ErrorRise(int(base.sum()), int(candidate.sum()), boxes, low, high)

    def precision_drop(self) -> PrecisionDrop | None:
        """None without known boxes."""
        answers, truth = self._known
        if not any(map(len, truth)):
            return None
        boxes = answers.reshape(len(answers), 2, -1, VALUES)
        (base, candidate), resampled = mean_average_precision(boxes, truth)
        return PrecisionDrop(float(base), float(candidate), *drop_interval(resampled), len(boxes))
