"""What a search from a seed is after, in terms of models' answers alone.

The published searches look for one model's failure on one seed. Here a search has an aim: the number of one model, or
``EVERY_MODEL``, the disagreement of all. Nothing but probabilities is known of a model.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from diffgen.tasks.classification import differ
from diffgen.types import Float32Array, Int64Array

EVERY_MODEL = -1
_SMALLEST = float(np.finfo(np.float32).tiny)


def changed(labels: Int64Array, expected: Int64Array, aims: Int64Array) -> NDArray[np.bool_]:
    """bool (n,): whether a picture is what its search is after.

    One model is after a label that is not the expected one; for ``EVERY_MODEL`` the models must not agree.

    Args:
        labels: int64 (n, M), what the models say.
        expected: int64 (n,), the labels of the seeds.
        aims: int64 (n,).
    """
    alone = labels[np.arange(len(labels)), np.maximum(aims, 0)] != expected
    return np.asarray(np.where(aims == EVERY_MODEL, differ(labels), alone))


def still_named(labels: Int64Array, expected: Int64Array, aims: Int64Array) -> NDArray[np.bool_]:
    """bool (n,): whether a seed that was encoded and drawn again can be searched from.

    The model under test has to give it the expected label, and every model where their disagreement is the aim: what
    encoding alone has changed is no finding.

    Args:
        labels, expected, aims: see :func:`changed`.
    """
    right = labels == expected[:, None]
    alone = right[np.arange(len(labels)), np.maximum(aims, 0)]
    return np.asarray(np.where(aims == EVERY_MODEL, right.all(axis=1), alone))


def margins(probabilities: Float32Array, expected: Int64Array) -> NDArray[np.float64]:
    """float64 (n, M): logit of the expected label less the highest other one; below 0, where a model says another.

    The logits of a black box are not known, but their differences are those of its log-probabilities. Probabilities of
    0 are taken for the smallest normal number of 32 bits.

    Args:
        probabilities: float32 (n, M, K).
        expected: int64 (n,).
    """
    logs = np.log(np.maximum(probabilities.astype(np.float64), _SMALLEST))
    places = np.broadcast_to(expected[:, None, None], (*logs.shape[:2], 1))
    own = np.take_along_axis(logs, places, axis=2)[:, :, 0]
    np.put_along_axis(logs, places, -np.inf, axis=2)
    return np.asarray(own - logs.max(axis=2))


def shortfall(values: NDArray[np.float64], aims: Int64Array) -> NDArray[np.float64]:
    """float64 (n,): how far a picture is from what its search is after, below 0 where it is there.

    Of one model it is its margin. For ``EVERY_MODEL`` it is the larger of the smallest margin (while all models give
    the expected label, the one that is nearest to losing it has to lose it) and of the largest margin with its sign
    changed (where all have lost it, the one that is nearest to it has to come back).

    Args:
        values: float64 (n, M), see :func:`margins`.
        aims: int64 (n,).
    """
    alone = values[np.arange(len(values)), np.maximum(aims, 0)]
    between = np.maximum(values.min(axis=1), -values.max(axis=1))
    return np.asarray(np.where(aims == EVERY_MODEL, between, alone))
