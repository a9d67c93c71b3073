"""What the answers of base and candidate to the same images come to: rates, shifts and drops."""

from __future__ import annotations

import numpy as np
import torch

from diffgen.gate.values import AccuracyDrop, CalibrationRise, Rate, Undecided
from diffgen.metrics.calibration_error import calibration_error, calibration_rise_interval
from diffgen.tasks.classification import answer_margin, differ, disagree, labels_of, top5_flips
from diffgen.tasks.kept_answers import KeptAnswers
from diffgen.types import Float32Array, Int64Array

_CLASSES_FOR_TOP5 = 11  # of ten classes five are half


def rate(probabilities: Float32Array, margin: float) -> Rate:
    """How many of float32 (N, 2, K) have other labels, whatever the margin; how many of these keep it not."""
    count = int(differ(labels_of(probabilities)).sum())
    decided = int(disagree(torch.from_numpy(probabilities), margin).sum())
    return Rate(count, len(probabilities), undecided=count - decided)


def top5_rate(answers: KeptAnswers) -> Rate | None:
    """On how many images a label is not even among the five highest of the other model; None for so few classes."""
    if answers.count < _CLASSES_FOR_TOP5:
        return None
    return Rate(int(top5_flips(answers.probabilities).sum()), len(answers))


def undecided(probabilities: Float32Array, margin: float) -> Undecided:
    """How many of float32 (N, 2, K) one of the two is undecided on, within the margin, and the other is not."""
    base, candidate = (
        answer_margin(torch.from_numpy(probabilities[:, column : column + 1])).numpy() > margin for column in (0, 1)
    )
    return Undecided(int((base & ~candidate).sum()), len(probabilities), only_base=int((candidate & ~base).sum()))


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


def calibration_rise(answers: KeptAnswers, labels: Int64Array) -> CalibrationRise | None:
    """Of the answers of base and candidate, and int64 (N,), what is right.

    Returns:
        None where a model's probabilities are all 0 or 1: it says labels, and nothing of how sure it is.
    """
    sure, right = answers.probabilities.max(axis=2), answers.labels == labels[:, None]
    if len(labels) == 0 or (sure == 1).all(axis=0).any():
        return None
    base, candidate = (calibration_error(sure[:, column], right[:, column]) for column in (0, 1))
    low, high = calibration_rise_interval(sure, right)
    return CalibrationRise(base, candidate, low, high, len(labels))
