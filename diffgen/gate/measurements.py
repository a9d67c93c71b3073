"""The kinds of values that a check takes on images: how each is counted, told to people, and written as JSON.

Rates are taken on real images and on *random* pictures only: variations of real images that the jury recognises, and
valid ones of what the search draws from. Images that a search has chosen are those on which the models disagree most;
what they show is counted as behaviours and enters no rate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from diffgen import wording
from diffgen.metrics.intervals import (
    exact_interval,
    paired_difference_interval,
    share_beyond_largest,
    simultaneous_paired_intervals,
)
from diffgen.runs import schema
from diffgen.wording import count_of


def percent(share: float) -> str:
    """``0.53%``; as :func:`diffgen.wording.percent`, with the digits that limits are given with."""
    return wording.percent(share, 2)


def points(share: float) -> str:
    """``0.53 points``, of a difference of two shares; one that is no 0 is never written as 0."""
    value = round(share * 100, 9) or 0.0  # a sum of floats may miss 0 in its last digits; no minus before 0
    if 0 < abs(value) < 0.01:
        return "<0.01 points" if value > 0 else "above -0.01 points"
    return f"{value:.2f} points"


@dataclass(frozen=True)
class Measurement(ABC):
    """A value that was taken on images.

    Attributes:
        text: the value, for people.
        interval_text: its 95 % interval, or empty.

    Raises:
        ValueError: no images could be counted so; a record that somebody has changed may say it.
    """

    def __post_init__(self) -> None:
        if not self._possible():
            raise ValueError("no images could be counted so")

    @abstractmethod
    def _possible(self) -> bool: ...

    @property
    @abstractmethod
    def text(self) -> str: ...

    @property
    def interval_text(self) -> str:
        return ""

    def as_dict(self) -> dict[str, Any]:
        """JSON values: the fields, and what follows from them."""
        return asdict(self)

    @classmethod
    def check(cls, entry: Any) -> None:
        """See that it can be read; raises as :meth:`read`."""
        cls.read(entry)

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> Self:
        """What :meth:`as_dict` gave, which somebody may have changed since.

        Raises:
            KeyError, TypeError, ValueError: it is damaged.
        """
        kinds = {"int": schema.whole(), "float": schema.number(-1, 1), "str": schema.class_name}
        schema.fields({each.name: kinds[str(each.type)] for each in fields(cls)})(entry)
        return cls(**{each.name: entry[each.name] for each in fields(cls)})


class Share(Measurement):
    """A share of ``of`` images, or a difference of two, with a 95 % interval."""

    of: int
    in_points: ClassVar[bool] = True  # as differences of shares are
    noun: ClassVar[tuple[str, str]] = ("image", "images")  # what there are ``of``

    @property
    @abstractmethod
    def share(self) -> float:
        """Of a difference: above 0 the candidate is worse."""

    @abstractmethod
    def interval_on(self, of: int) -> tuple[float, float]:
        """Ends of the interval if the same shares were seen on ``of`` images."""

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the interval."""
        return self.interval_on(self.of)

    @classmethod
    def words(cls, share: float) -> str:
        """A share in the unit of this kind."""
        return points(share) if cls.in_points else percent(share)

    @property
    def interval_text(self) -> str:
        low, high = self.interval
        return (
            f"{low * 100:.2f} to {points(high)}" if self.in_points else f"{percent(max(0.0, low))} to {percent(high)}"
        )

    def as_dict(self) -> dict[str, Any]:
        low, high = self.interval
        return {**super().as_dict(), "share": self.share, "low": low, "high": high}


class OnThese(Share):
    """A share whose interval is known on the images that there are: what more of them would show is not."""

    low: float
    high: float

    def interval_on(self, of: int) -> tuple[float, float]:
        return self.low, self.high


@dataclass(frozen=True)
class Rate(Share):
    """``count`` of ``of`` images, with the exact interval of the share, 0..1.

    Attributes:
        undecided: how many of the counted ones are exact ties, or within the numeric noise, in one of the models. A
            search does not report these; a rate counts them, since a model that ties everywhere is broken.
    """

    count: int
    of: int
    undecided: int = 0
    in_points: ClassVar[bool] = False

    def _possible(self) -> bool:
        return max(self.count, self.undecided) <= self.of

    @property
    def share(self) -> float:
        """0 for no images."""
        return self.count / self.of if self.of else 0.0

    def interval_on(self, of: int) -> tuple[float, float]:
        return exact_interval(round(self.share * of), of)

    @property
    def text(self) -> str:
        ties = f", {self.undecided:,} of them undecided" if self.undecided else ""
        return f"{percent(self.share)} ({self.count:,} of {self.of:,}{ties})"


@dataclass(frozen=True)
class Undecided(Rate):
    """Images on which only the candidate gives no answer; its own ``undecided`` is not used.

    It is undecided, within the margin, or answers with the value that is left out for the background. Two networks
    whose answers are 8-bit numbers tie on some images each, and not on the same ones.

    Attributes:
        only_base: images on which only the base gives none.
    """

    only_base: int = 0
    in_points: ClassVar[bool] = True

    def _possible(self) -> bool:
        return super()._possible() and self.count + self.only_base <= self.of

    @property
    def share(self) -> float:
        """-1..1: by how much more often it is the candidate."""
        return (self.count - self.only_base) / self.of if self.of else 0.0

    def interval_on(self, of: int) -> tuple[float, float]:
        return paired_difference_interval(*_grown(of, self.of, self.count, self.only_base), of)

    @property
    def text(self) -> str:
        return f"{points(self.share)} ({self.count:,} of {self.of:,}, only the base on {self.only_base:,})"


@dataclass(frozen=True)
class AccuracyDrop(Share):
    """Accuracy of the base minus that of the candidate, on the same ``of`` labelled images; -1..1.

    Attributes:
        base_right, candidate_right: images on which each is right.
        only_base: images on which the base is right and the candidate is not: regression faults as DRFuzz counts them.
    """

    base_right: int
    candidate_right: int
    only_base: int
    of: int

    def _possible(self) -> bool:
        return (
            self.of > 0
            and self.only_base <= self.base_right <= self.of
            and 0 <= self.only_candidate <= self.of - self.base_right
        )

    @property
    def share(self) -> float:
        return (self.base_right - self.candidate_right) / self.of

    @property
    def only_candidate(self) -> int:
        """Images on which the candidate is right and the base is not."""
        return self.candidate_right - (self.base_right - self.only_base)

    def interval_on(self, of: int) -> tuple[float, float]:
        return paired_difference_interval(*_grown(of, self.of, self.only_base, self.only_candidate), of)

    @property
    def text(self) -> str:
        return self.described()

    def described(self, which: str = "") -> str:
        """Its text, with more about the images."""
        before, after = (percent(right / self.of) for right in (self.base_right, self.candidate_right))
        return f"{points(self.share)} ({before}, now {after}{which})"


@dataclass(frozen=True)
class ClassDrop(AccuracyDrop):
    """The accuracy drop on the images of one class: a worst one, see :func:`diffgen.gate.answers.worst_classes`.

    Attributes:
        classes: how many classes have images; the interval is corrected for having chosen the worst of so many, so that
            those of all classes hold at once with 95 % confidence.
    """

    label: int
    name: str
    classes: int

    def _possible(self) -> bool:
        return super()._possible() and self.classes > 0

    def interval_on(self, of: int) -> tuple[float, float]:
        lost, won = (np.asarray([count]) for count in _grown(of, self.of, self.only_base, self.only_candidate))
        low, high = simultaneous_paired_intervals(lost, won, np.asarray([of]), among=self.classes)
        return float(low[0]), float(high[0])

    def described(self, which: str = "") -> str:
        return super().described(f" of {count_of(self.of, 'image')} of class {self.name}{which}")


@dataclass(frozen=True)
class ClassDisagreement(ClassDrop):
    """The same where no labels say who is right: other labels on images of one class of the base."""

    in_points: ClassVar[bool] = False

    @property
    def text(self) -> str:
        return f"{percent(self.share)} ({self.only_base:,} of {self.of:,} that the base calls {self.name})"


def _grown(of: int, seen: int, first: int, second: int) -> tuple[int, int]:
    """Two counts among ``seen`` images as the same shares of ``of``."""
    return round(first * of / max(seen, 1)), round(second * of / max(seen, 1))


@dataclass(frozen=True)
class CalibrationRise(OnThese):
    """Expected calibration error of the candidate less that of the base, on the same ``of`` labelled images; -1..1.

    Attributes:
        base, candidate: the error of each, 0..1.
        low, high: ends of the interval; see :func:`diffgen.metrics.calibration_error.calibration_rise_interval`.
    """

    base: float
    candidate: float
    low: float
    high: float
    of: int

    def _possible(self) -> bool:
        return self.of > 0 and min(self.base, self.candidate) >= 0

    @property
    def share(self) -> float:
        return self.candidate - self.base

    @property
    def text(self) -> str:
        return f"{points(self.share)} ({percent(self.base)}, now {percent(self.candidate)})"


@dataclass(frozen=True)
class Shift(Measurement):
    """The largest change of any class's probability from base to candidate, on any of ``of`` images; 0..1."""

    largest: float
    of: int

    def _possible(self) -> bool:
        return self.largest >= 0

    @property
    def beyond(self) -> float:
        """With 95 % confidence at most this share of such images changes more than ``largest``."""
        return share_beyond_largest(self.of)

    @property
    def text(self) -> str:
        return f"{self.largest:.3g}"

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "beyond": self.beyond}
