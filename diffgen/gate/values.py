"""What a check measured. Nothing here knows a limit; see :mod:`diffgen.gate.conditions`.

Rates are taken on real images and on *random* pictures only: variations of real images that the jury recognises, and
valid ones of what the search draws from. Images that a search has chosen are those on which the models disagree most;
what they show is counted as behaviours and enters no rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diffgen.metrics.intervals import (
    exact_interval,
    paired_difference_interval,
    share_beyond_largest,
    simultaneous_paired_intervals,
)


@dataclass(frozen=True)
class Rate:
    """``count`` of ``of`` images, with the exact 95 % interval of the share.

    Attributes:
        undecided: how many of the counted ones are exact ties, or within the numeric noise, in one of the models. A
            search does not report these; a rate counts them, since a model that ties everywhere is broken.
    """

    count: int
    of: int
    undecided: int = 0

    @property
    def share(self) -> float:
        """0..1; 0 for no images."""
        return self.count / self.of if self.of else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the interval, 0..1."""
        return self.interval_on(self.of)

    def interval_on(self, of: int) -> tuple[float, float]:
        """Ends of the interval if the same share were seen on ``of`` images."""
        return exact_interval(round(self.share * of), of)


@dataclass(frozen=True)
class Undecided(Rate):
    """Images on which only the candidate gives no answer; its own ``undecided`` is not used.

    It is undecided, within the margin, or answers with the value that is left out for the background. Two networks
    whose answers are 8-bit numbers tie on some images each, and not on the same ones.

    Attributes:
        only_base: images on which only the base gives none; None in records of older versions, which did not count
            them.
    """

    only_base: int | None = None

    @property
    def share(self) -> float:
        """-1..1: by how much more often it is the candidate; above 0 the candidate is worse."""
        return (self.count - (self.only_base or 0)) / self.of if self.of else 0.0

    def interval_on(self, of: int) -> tuple[float, float]:
        """Ends of the interval of the paired difference, -1..1, if the same shares were seen on ``of`` images."""
        if self.only_base is None:
            return super().interval_on(of)
        return paired_difference_interval(*_grown(of, self.of, self.count, self.only_base), of)


@dataclass(frozen=True)
class AccuracyDrop:
    """Accuracy of the base minus that of the candidate, on the same ``of`` labelled images.

    Attributes:
        base_right, candidate_right: images on which each is right.
        only_base: images on which the base is right and the candidate is not: regression faults as DRFuzz counts them.
    """

    base_right: int
    candidate_right: int
    only_base: int
    of: int

    @property
    def share(self) -> float:
        """-1..1; above 0 the candidate is worse."""
        return (self.base_right - self.candidate_right) / self.of

    @property
    def only_candidate(self) -> int:
        """Images on which the candidate is right and the base is not."""
        return self.candidate_right - (self.base_right - self.only_base)

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the interval of the paired difference, -1..1."""
        return self.interval_on(self.of)

    def interval_on(self, of: int) -> tuple[float, float]:
        """Ends of the interval if the same shares were seen on ``of`` images."""
        return paired_difference_interval(*_grown(of, self.of, self.only_base, self.only_candidate), of)


@dataclass(frozen=True)
class ClassDrop(AccuracyDrop):
    """The accuracy drop on the images of one class: a worst one of ``classes``, see :mod:`diffgen.gate.classes`.

    Attributes:
        label, name: of the class.
        classes: how many classes have images; the interval is corrected for having chosen the worst of so many.
    """

    label: int
    name: str
    classes: int

    def interval_on(self, of: int) -> tuple[float, float]:
        """Ends of the interval, as there; those of all classes hold at once with 95 % confidence."""
        lost, won = (np.asarray([count]) for count in _grown(of, self.of, self.only_base, self.only_candidate))
        low, high = simultaneous_paired_intervals(lost, won, np.asarray([of]), among=self.classes)
        return float(low[0]), float(high[0])


def _grown(of: int, seen: int, first: int, second: int) -> tuple[int, int]:
    """Two counts among ``seen`` images as the same shares of ``of``."""
    return round(first * of / max(seen, 1)), round(second * of / max(seen, 1))


@dataclass(frozen=True)
class CalibrationRise:
    """Expected calibration error of the candidate less that of the base, on the same ``of`` labelled images.

    Attributes:
        base, candidate: the error of each, 0..1.
        low, high: ends of the interval; see :func:`diffgen.metrics.calibration_error.calibration_rise_interval`.
    """

    base: float
    candidate: float
    low: float
    high: float
    of: int

    @property
    def share(self) -> float:
        """-1..1; above 0 the candidate is worse."""
        return self.candidate - self.base

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the interval, -1..1."""
        return self.low, self.high


@dataclass(frozen=True)
class Shift:
    """The largest change of any class's probability from base to candidate, on any of ``of`` images; 0..1."""

    largest: float
    of: int

    @property
    def beyond(self) -> float:
        """With 95 % confidence at most this share of such images changes more than ``largest``."""
        return share_beyond_largest(self.of)


@dataclass(frozen=True)
class Replay:
    """What became of the pictures in the store.

    Attributes:
        pictures: how many were asked about.
        still: those on which base and candidate disagree as they did when they were stored.
        changed: those on which they disagree with other labels.
    """

    pictures: int = 0
    still: int = 0
    changed: int = 0

    @property
    def agree(self) -> int:
        """Those on which the two agree now, or one of them is too undecided to count."""
        return self.pictures - self.still - self.changed


@dataclass(frozen=True)
class Behaviour:
    """One way in which base and candidate disagree.

    Attributes:
        said: labels of base and of candidate.
        cell: part of the real images' feature space that its pictures lie in.
        count: distinct pictures.
        known: how many of them the store knows.
        shift: largest change of a probability on any of them.
        triggers: numbers of some of its pictures in the run, spread out over all; -1 for a picture of the store.
        replayed: it was met on pictures of the store and not by the search.
        faults: on how many of its pictures, or of their near-duplicates, the jury says that the base is right and the
            candidate wrong.
    """

    said: tuple[int, int]
    cell: int
    count: int
    known: int
    shift: float
    triggers: tuple[int, ...]
    replayed: bool = False
    faults: int = 0

    @property
    def new(self) -> bool:
        """Whether more than half of its pictures are new."""
        return 2 * self.known < self.count


@dataclass(frozen=True)
class KnownBehaviour:
    """How severe a behaviour of the store is in this check.

    Attributes:
        stored: its name in the store.
        names: what base and candidate say.
        pictures: distinct pictures of the search that the store knows, and that are nearest to this behaviour's.
        shift: largest change of a probability on the pictures that the store keeps of it: the same ones in every check,
            whatever a search meets.
    """

    stored: str
    names: tuple[str, str]
    pictures: int
    shift: float


@dataclass(frozen=True)
class SearchState:
    """How the search ended; ``problem`` is one sentence that says why it did not come to its end, or empty."""

    queries: int
    problem: str = ""


@dataclass(frozen=True)
class Steadiness:
    """How far the models' own answers can be relied on.

    Attributes:
        noise: largest change of a probability when nothing that matters has changed, worst of the two models, 0..1.
        margin: the smallest gap of the two highest probabilities that counts as an answer.
        unsteady: a sentence about each model that does not answer alike twice.
        batched: a sentence about each model that follows its batch, and is therefore asked one image at a time.
    """

    noise: float = 0.0
    margin: float = 0.0
    unsteady: tuple[str, ...] = ()
    batched: tuple[str, ...] = ()


@dataclass(frozen=True)
class GateValues:
    """Everything that a check measured; None where it could not.

    Attributes:
        real: disagreement on the real images.
        random: disagreement on random valid pictures: what the search draws from, unsearched.
        drawn, accepted: random pictures that the filters were asked about, and those that all of them accept;
            ``random`` is on as many of the latter as were wanted.
        accuracy: None without labels.
        top5_real, top5_random: images on which a label is not even among the five highest of the other model; None with
            ten classes or fewer.
        variations: accuracy on random variations of the real images that the jury still recognises; None without one.
        varied: how many variations were made for ``variations``.
        jury: there is one, so that ``faults`` of behaviours were counted.
        shift_real, shift_random: on the same images as ``real`` and ``random``.
        replay: of the store.
        search: how it ended.
        behaviours: new ones first, of these the candidate's faults first, then the one with the largest shift.
        known: every behaviour of the store.
        steadiness: of the models' answers.
        smells: a sentence about each thing in the candidate's answers to real images that wrong pre-processing would
            explain, and that is clearly worse than in the base's.
        faint_smells: the same of what is not shown to be worse than in the base's.
        base_smells: the same of the base's answers: then limits on accuracy say little.
        undecided: on the real images.
        unanswered: real images that are answered with NaN or infinity; they count as wrong. None where there are none.
        silences: a sentence about each model that answers images so, or other pictures.
        background: real images that are answered with the value that is left out for the background; they count as
            wrong. None where no such value is left out.
        classes: how many of the models' classes the labelled real images show, and how many there are; None without
            labels.
        class_accuracy: of the class whose loss is shown to be the largest; None without labels.
        largest_class_drop: of the class that lost the largest share of its images, however few they are; None as well.
        sure: without labels, disagreement on the real images that the base is sure of; None with labels.
        class_disagreement: of these images, the class of the base whose images the candidate is shown to call otherwise
            most often, the base's answers taken for right; None with labels.
        calibration: None without labels, or where a model gives no probabilities but labels alone.
        labels_alone: of base and candidate, whether it does.
        outputs: of base and candidate, what each answers with before it is made into probabilities, in words.
        left_out: of base and candidate, whether it answers with one value more, for the background.
    """

    real: Rate | None = None
    random: Rate | None = None
    drawn: int = 0
    accepted: int = 0
    accuracy: AccuracyDrop | None = None
    shift_real: Shift | None = None
    shift_random: Shift | None = None
    replay: Replay = Replay()
    search: SearchState = SearchState(0, "The search was not begun.")
    behaviours: tuple[Behaviour, ...] = ()
    known: tuple[KnownBehaviour, ...] = ()
    steadiness: Steadiness = Steadiness()
    smells: tuple[str, ...] = ()
    faint_smells: tuple[str, ...] = ()
    base_smells: tuple[str, ...] = ()
    undecided: Undecided | None = None
    unanswered: Undecided | None = None
    silences: tuple[str, ...] = ()
    background: Undecided | None = None
    classes: tuple[int, int] | None = None
    class_accuracy: ClassDrop | None = None
    largest_class_drop: ClassDrop | None = None
    sure: Rate | None = None
    class_disagreement: ClassDrop | None = None
    calibration: CalibrationRise | None = None
    labels_alone: tuple[bool, bool] = (False, False)
    outputs: tuple[str, str] = ("", "")
    left_out: tuple[bool, bool] = (False, False)
    variations: AccuracyDrop | None = None
    varied: int = 0
    top5_real: Rate | None = None
    top5_random: Rate | None = None
    jury: bool = False

    @property
    def new(self) -> tuple[Behaviour, ...]:
        """The behaviours that the store does not know."""
        return tuple(each for each in self.behaviours if each.new)

    @property
    def new_faults(self) -> tuple[Behaviour, ...]:
        """Those of them on a picture of which the jury says that the base is right and the candidate wrong.

        None of them without a jury (:attr:`jury`), since nobody says so.
        """
        return tuple(each for each in self.new if each.faults)

    @property
    def variation_faults(self) -> Rate | None:
        """Random variations on which the base is right and the candidate wrong."""
        return None if self.variations is None else Rate(self.variations.only_base, self.variations.of)

    @property
    def faults(self) -> Rate | None:
        """Regression faults on labelled real images: the base is right, the candidate wrong (DRFuzz, ICSE 2023)."""
        return None if self.accuracy is None else Rate(self.accuracy.only_base, self.accuracy.of)
