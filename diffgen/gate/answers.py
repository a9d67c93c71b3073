"""What the answers of base and candidate to the same images come to: rates, shifts and drops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from diffgen.gate.boxes import BoxAnswers
from diffgen.gate.maps import MapAnswers
from diffgen.gate.measurements import (
    AccuracyDrop,
    CalibrationRise,
    ClassDisagreement,
    ClassDrop,
    Rate,
    Shift,
    Undecided,
)
from diffgen.metrics.calibration_error import calibration_error, calibration_rise_interval
from diffgen.metrics.intervals import simultaneous_paired_intervals
from diffgen.tasks.classification import answer_margin, differ, disagree, labels_of, top5_flips
from diffgen.tasks.kept_answers import KeptAnswers
from diffgen.types import BoolArray, Float32Array, Int64Array

_CLASSES_FOR_TOP5 = 11  # of ten classes five are half
_SURE = 0.9  # probability; why: docs/decisions/063
_NO_CLASS = -1  # a label that is never right


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of base and candidate to N images, and what is known of the images.

    Attributes:
        kept: of both models.
        margin: the smallest gap of the two highest probabilities that counts as an answer.
        background: bool (N, 2), which images a model answers with the value left out for the background.
        silent: bool (N, 2), which it answers with NaN or infinity.
        labels: int64 (N,), the true ones, or None.
        names: K names of classes.
        leaves_out: a model has a value that is left out for the background.
        probabilities_given: both models give probabilities and not labels alone.
        boxes: of real images, what detectors find in them; None: they were not asked, or the models are none.
        maps: of real images, how maps of classes differ; None as with boxes.
    """

    kept: KeptAnswers
    margin: float
    background: BoolArray
    silent: BoolArray
    labels: Int64Array | None = None
    names: Sequence[str] = ()
    leaves_out: bool = False
    probabilities_given: bool = True
    boxes: BoxAnswers | None = None
    maps: MapAnswers | None = None

    @classmethod
    def joined(cls, parts: Sequence[Answers]) -> Answers:
        """To several lots of images without labels, one after the other."""
        return cls(
            KeptAnswers.joined([each.kept for each in parts]),
            parts[0].margin,
            background=np.concatenate([each.background for each in parts]),
            silent=np.concatenate([each.silent for each in parts]),
        )

    def only(self, rows: Any) -> Answers:
        """Those to some of the images."""
        return replace(
            self,
            kept=self.kept[rows],
            background=self.background[rows],
            silent=self.silent[rows],
            labels=None if self.labels is None else self.labels[rows],
        )

    @cached_property
    def said(self) -> Int64Array:
        """int64 (N, 2), what counts as said: -1, which is never right, where a model says no class."""
        return np.where(self.background | self.silent, _NO_CLASS, self.kept.labels)

    def disagreement(self) -> Rate:
        """Images with different labels, whatever the margin, and how many of these differ by less than it."""
        apart, probabilities = differ(self.said), self.kept.probabilities
        decided = disagree(torch.from_numpy(probabilities), self.margin).numpy()
        decided |= differ(labels_of(probabilities)) != apart
        return Rate(int(apart.sum()), len(probabilities), undecided=int((apart & ~decided).sum()))

    def sure(self) -> Answers:
        """Those to the images that the base is 90 % sure of; to the surer half where these are fewer."""
        sure = self.kept.probabilities[:, 0].max(axis=1)
        return self.only(sure >= min(_SURE, float(np.median(sure)))) if len(sure) else self

    def sure_disagreement(self) -> Rate:
        """Images that the base is sure of, with different labels."""
        return self.sure().disagreement()

    def undecided(self) -> Undecided:
        """Images on which one of the two is undecided, within the margin, and the other is not."""
        margins = [answer_margin(torch.from_numpy(self.kept.probabilities[:, [column]])).numpy() for column in (0, 1)]
        return only_one(np.stack(margins, axis=1) <= self.margin)

    def top5_flips(self) -> Rate | None:
        """Images on which a label is not among the five highest of the other model; None for so few classes."""
        if self.kept.count < _CLASSES_FOR_TOP5 or self.boxes is not None or self.maps is not None:
            return None
        return Rate(int(top5_flips(self.kept.probabilities).sum()), len(self.kept))

    def shift(self) -> Shift:
        """The largest change of a probability."""
        return Shift(largest_shift(self.kept.probabilities), len(self.kept))

    @property
    def right(self) -> BoolArray:
        """bool (N, 2): of labelled images, what each model is right on."""
        assert self.labels is not None
        return np.asarray(self.said == self.labels[:, None])

    def accuracy_drop(self) -> AccuracyDrop:
        """Of labelled images."""
        base, candidate = self.right.T
        return AccuracyDrop(int(base.sum()), int(candidate.sum()), int((base & ~candidate).sum()), len(base))

    def faults(self) -> Rate:
        """Regression faults on labelled images: the base is right, the candidate wrong (DRFuzz, ICSE 2023)."""
        base, candidate = self.right.T
        return Rate(int((base & ~candidate).sum()), len(base))

    def calibration_rise(self) -> CalibrationRise | None:
        """Of labelled images; None where a model gives labels alone."""
        if not self.probabilities_given:
            return None
        sure, right = self.kept.probabilities.max(axis=2), self.right
        base, candidate = (calibration_error(sure[:, column], right[:, column]) for column in (0, 1))
        return CalibrationRise(base, candidate, *calibration_rise_interval(sure, right), len(right))

    @cached_property
    def worst_classes(self) -> tuple[ClassDrop, ClassDrop]:
        """Of labelled images; see :func:`worst_classes`."""
        assert self.labels is not None
        return worst_classes(self.said, self.labels, self.names)

    def class_disagreement(self) -> ClassDisagreement | None:
        """Of the images that the base is sure of, the class of the base that fares worst, as if the base were right."""
        said = self.sure().said
        named = said[said[:, 0] != _NO_CLASS]
        return ClassDisagreement(**vars(worst_classes(named, named[:, 0], self.names)[0])) if len(named) else None


def only_one(holds: BoolArray) -> Undecided:
    """On how many images bool (N, 2) holds for one model alone."""
    base, candidate = holds.T
    return Undecided(int((candidate & ~base).sum()), len(base), only_base=int((base & ~candidate).sum()))


def largest_shift(probabilities: Float32Array) -> float:
    """The largest change of a probability from base to candidate, for float32 (N, 2, K); 0 for no images."""
    return float(np.abs(probabilities[:, 0] - probabilities[:, 1]).max(initial=0.0))


def labels_alone(answers: KeptAnswers) -> tuple[bool, bool]:
    """Whether base and candidate are sure of every answer: all probabilities are 0 or 1."""
    base, candidate = (answers.probabilities.max(axis=2) == 1).all(axis=0).tolist()
    return base, candidate


def worst_classes(said: Int64Array, labels: Int64Array, names: Sequence[str]) -> tuple[ClassDrop, ClassDrop]:
    """The class whose loss of accuracy is shown to be the largest, and the one whose loss is; often the same.

    The first is the one whose interval has the highest lower end, so that no class of a few images takes the place of
    one that was lost for certain. Where no class is shown to have lost anything, it is the one that lost the largest
    share of its images; of equal ones the first. The second may be a class of so few images that they show nothing.
    Why the intervals and not the values decide: docs/decisions/017.

    Args:
        said: int64 (N, 2), labels that base and candidate give to N images, N at least 1.
        labels: int64 (N,), the true ones, 0..K-1.
        names: K names.
    """
    base, candidate = (said == labels[:, None]).T
    of, base_right, candidate_right, only_base = (
        np.bincount(labels[chosen], minlength=len(names))
        for chosen in (np.ones_like(base), base, candidate, base & ~candidate)
    )
    present = np.flatnonzero(of)
    lost, won, images = (column[present] for column in (only_base, candidate_right - (base_right - only_base), of))
    low, _ = simultaneous_paired_intervals(lost, won, images, among=len(present))
    # the last key counts first; lexsort is stable, so that the first of equal classes comes first
    share = -(lost - won) / images
    shown, largest = (
        ClassDrop(
            base_right=int(base_right[label]),
            candidate_right=int(candidate_right[label]),
            only_base=int(only_base[label]),
            of=int(of[label]),
            label=int(label),
            name=names[label],
            classes=len(present),
        )
        for label in present[[np.lexsort((share, -np.maximum(low, 0.0)))[0], share.argmin()]]
    )
    return shown, largest
