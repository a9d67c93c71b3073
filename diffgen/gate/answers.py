"""What the answers of base and candidate to the same images come to: rates, shifts and drops."""

from __future__ import annotations

import numpy as np
import torch

from diffgen.gate.values import AccuracyDrop, CalibrationRise, Rate, Undecided
from diffgen.metrics.calibration_error import calibration_error, calibration_rise_interval
from diffgen.tasks.classification import answer_margin, differ, disagree, labels_of, top5_flips
from diffgen.tasks.kept_answers import KeptAnswers
from diffgen.types import BoolArray, Float32Array, Int64Array

_CLASSES_FOR_TOP5 = 11  # of ten classes five are half
_SURE = 0.9  # probability; why: docs/decisions/063


def rate(probabilities: Float32Array, margin: float, said: Int64Array | None = None) -> Rate:
    """On how many images the labels differ, whatever the margin, and how many of these keep it not.

    Args:
        probabilities: float32 (N, 2, K).
        margin: the smallest gap of the two highest that counts as an answer.
        said: int64 (N, 2), what counts as said: -1 for the background. None: the labels alone.
    """
    labels = labels_of(probabilities)
    apart = differ(labels if said is None else said)
    decided = disagree(torch.from_numpy(probabilities), margin).numpy() | (differ(labels) != apart)
    return Rate(int(apart.sum()), len(probabilities), undecided=int((apart & ~decided).sum()))


def base_sure(probabilities: Float32Array) -> BoolArray:
    """bool (N,): which of float32 (N, 2, K) the base is 90 % sure of; the surer half where these are fewer."""
    sure = probabilities[:, 0].max(axis=1)
    return sure >= min(_SURE, float(np.median(sure))) if len(sure) else sure.astype(np.bool_)


def top5_rate(answers: KeptAnswers) -> Rate | None:
    """On how many images a label is not even among the five highest of the other model; None for so few classes."""
    if answers.count < _CLASSES_FOR_TOP5:
        return None
    return Rate(int(top5_flips(answers.probabilities).sum()), len(answers))


def undecided(probabilities: Float32Array, margin: float) -> Undecided:
    """How many of float32 (N, 2, K) one of the two is undecided on, within the margin, and the other is not."""
    base, candidate = (
        answer_margin(torch.from_numpy(probabilities[:, column : column + 1])).numpy() <= margin for column in (0, 1)
    )
    return only_one(base, candidate)


def largest_shift(probabilities: Float32Array) -> float:
    """The largest change of a probability from base to candidate, for float32 (N, 2, K); 0 for no images."""
    return float(np.abs(probabilities[:, 0] - probabilities[:, 1]).max(initial=0.0))


def accuracy_drop(said: Int64Array, labels: Int64Array) -> AccuracyDrop:
    """Of int64 (N, 2), what base and candidate say, and int64 (N,), what is right."""
    right = said == labels[:, None]
    return AccuracyDrop(
        base_right=int(right[:, 0].sum()),
        candidate_right=int(right[:, 1].sum()),
        only_base=int((right[:, 0] & ~right[:, 1]).sum()),
        of=len(labels),
    )


def only_one(base: BoolArray, candidate: BoolArray) -> Undecided:
    """How many of bool (N,) and bool (N,) hold for one model alone."""
    return Undecided(int((candidate & ~base).sum()), len(base), only_base=int((base & ~candidate).sum()))


def labels_alone(answers: KeptAnswers) -> tuple[bool, bool]:
    """Whether base and candidate are sure of every answer: all probabilities are 0 or 1."""
    base, candidate = (answers.probabilities.max(axis=2) == 1).all(axis=0).tolist()
    return base, candidate


def calibration_rise(answers: KeptAnswers, said: Int64Array, labels: Int64Array) -> CalibrationRise | None:
    """Of the answers of base and candidate, int64 (N, 2), what counts as said, and int64 (N,), what is right.

    Returns:
        None for no images.
    """
    if len(labels) == 0:
        return None
    sure, right = answers.probabilities.max(axis=2), said == labels[:, None]
    base, candidate = (calibration_error(sure[:, column], right[:, column]) for column in (0, 1))
    low, high = calibration_rise_interval(sure, right)
    return CalibrationRise(base, candidate, low, high, len(labels))
