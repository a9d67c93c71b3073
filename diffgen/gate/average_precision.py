"""Mean average precision of detectors, as COCO has it, and how far it may be from what other pictures would show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diffgen.tasks.detection import overlaps
from diffgen.types import Float32Array

THRESHOLDS = np.linspace(0.5, 0.95, 10)  # of the IoU
_RECALLS = np.linspace(0, 1, 101)
_MOST = 100  # boxes of a picture, those with the highest scores
_RESAMPLES, _SEED = 200, 0
_INTERVAL = (2.5, 97.5)  # percentiles
_Flat = tuple[Float32Array, NDArray[np.int64]]  # the boxes of all pictures, and which picture each is of
_AT_ONCE = 2**21  # boxes of all draws; there may be a hundred thousand of a class


@dataclass(frozen=True)
class _OfClass:
    """The boxes of one class, the highest score first.

    Attributes:
        right: bool (10, D), which are right, at each IoU.
        pictures: int64 (D,), which picture each is of.
        wanted: int64 (N,), how many objects of the class each picture has.
    """

    right: NDArray[np.bool_]
    pictures: NDArray[np.int64]
    wanted: NDArray[np.int64]

    def precision(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64 (R,): mean over the IoUs, where pictures count as R rows of float64 (R, N) say; NaN: no object."""
        step = max(1, _AT_ONCE // max(1, len(self.pictures)))
        return np.concatenate([self._precision(weights[at : at + step]) for at in range(0, len(weights), step)])

    def _precision(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        wanted = weights @ self.wanted
        own = weights[:, self.pictures]
        found = np.full((len(weights), len(self.right)), np.nan)
        for at, right in enumerate(self.right):
            hits = np.cumsum(own * right, axis=1)
            every = np.cumsum(own, axis=1)
            precision = np.divide(hits, every, out=np.zeros_like(hits), where=every > 0)
            precision = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
            for row in np.flatnonzero(wanted > 0):
                places = np.searchsorted(hits[row] / wanted[row], _RECALLS)
                reached = places < precision.shape[1]
                found[row, at] = precision[row, places[reached]].sum() / len(_RECALLS)
        return found.mean(axis=1)


def mean_average_precision(
    answers: Float32Array, truth: Sequence[Float32Array], *, resamples: int = _RESAMPLES
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of M models, over IoUs from 0.5 to 0.95 and the classes that have objects.

    Args:
        answers: float32 (N, M, P, 6): corners, score, class, padded with class -1.
        truth: of each picture float32 (n, 5): corners and class.
        resamples: how often as many pictures are drawn from them with replacement.

    Returns:
        float64 (M,), and float64 (resamples, M) of the pictures drawn; NaN where there are no objects.
    """
    count, models = answers.shape[:2]
    weights = drawn(count, resamples)
    objects = _flat(truth, 5)
    classes = np.unique(objects[0][:, 4])
    found = np.full((models, len(classes), len(weights)), np.nan)
    for model in range(models):
        boxes = _flat([_best(each) for each in answers[:, model]], 6)
        for at, label in enumerate(classes.tolist()):
            found[model, at] = _of_class(boxes, objects, label, count).precision(weights)
    known = ~np.isnan(found)
    sums = np.where(known, found, 0).sum(axis=1)
    means = np.divide(sums, known.sum(axis=1), out=np.full_like(sums, np.nan), where=known.any(axis=1))
    return means[:, 0], means[:, 1:].T


def drawn(count: int, resamples: int = _RESAMPLES) -> NDArray[np.float64]:
    """float64 (1 + resamples, count): how often each of some pictures counts: once, then as drawn with replacement."""
    draws = np.random.default_rng(_SEED).multinomial(count, np.full(count, 1 / max(count, 1)), resamples)
    return np.concatenate([np.ones((1, count)), draws]).astype(np.float64)


def drop_interval(resampled: NDArray[np.float64]) -> tuple[float, float]:
    """The 95 % interval of by how much the second of two models is worse, for float64 (R, 2)."""
    low, high = np.nanpercentile(resampled[:, 0] - resampled[:, 1], _INTERVAL)
    return float(low), float(high)


def _flat(of_each: Sequence[Float32Array], columns: int) -> _Flat:
    sizes = [len(each) for each in of_each]
    rows = np.concatenate([np.empty((0, columns), dtype=np.float32), *of_each])
    return rows, np.repeat(np.arange(len(sizes)), sizes)


def _best(boxes: Float32Array) -> Float32Array:
    """Those of one picture that count, the best first."""
    own = boxes[(boxes[:, 5] >= 0) & (boxes[:, 4] > 0)]
    return own[np.argsort(-own[:, 4], kind="stable")][:_MOST]


def _of_class(found: _Flat, truth: _Flat, label: float, pictures: int) -> _OfClass:
    (boxes, at), (objects, where) = (
        (rows[rows[:, column] == label], places[rows[:, column] == label])
        for (rows, places), column in ((found, 5), (truth, 4))
    )
    wanted = np.bincount(where, minlength=pictures)
    right = np.zeros((len(THRESHOLDS), len(boxes)), dtype=np.bool_)
    for picture in np.unique(at[wanted[at] > 0]):
        own, known = (slice(*np.searchsorted(places, (picture, picture + 1))) for places in (at, where))
        right[:, own] = _right(boxes[own], objects[known])
    order = np.argsort(-boxes[:, 4], kind="stable")
    return _OfClass(right[:, order], at[order], wanted)


def _right(found: Float32Array, objects: Float32Array) -> NDArray[np.bool_]:
    """bool (10, D): which boxes of a picture, the best first, take an object that no better one has, at each IoU."""
    right = np.zeros((len(THRESHOLDS), len(found)), dtype=np.bool_)
    iou = overlaps(found[None], objects[None])[0]
    for at, threshold in enumerate(THRESHOLDS):
        free = np.ones(len(objects), dtype=np.bool_)
        for row in np.flatnonzero(iou.max(axis=1) >= threshold):
            able = np.where(free, iou[row], -1)
            best = int(able.argmax())
            if able[best] >= threshold:
                free[best], right[at, row] = False, True
    return right
