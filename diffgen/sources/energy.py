"""Which seeds a search shall begin with: those near the margin of a model, or on which the models differ.

A small change of an image that a model is in two minds about may change its label; of one that it is sure about,
hardly (a power schedule over seeds, as in Böhme et al. 2016, "Coverage-based greybox fuzzing as Markov chain"). Models
are in two minds about what nobody can name, too, and what is made of that nobody can name either: images that show
their label clearly go before others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from diffgen.types import Float32Array

_EVENLY = 0.25  # share of the seeds that are drawn as if all had the same energy: the models may be surely wrong
_CLEAR = 0.5  # to the jury, which is less sure of photographs than a person: above that, all images are clear
_UNCLEAR = 0.05  # added for every image, so that one that does not show its label at all is drawn too, now and then


def energies(answers: Float32Array) -> NDArray[np.float64]:
    """How promising each real image is.

    Args:
        answers: float32 (N, M, T), the probabilities of M models, of all classes or of those that are kept.

    Returns:
        float64 (N,), from 0 (all models are sure, of the same) to 2: one minus the smallest margin of any model
        between its two likeliest labels, plus the largest difference between what two models give one label.
    """
    values = answers.astype(np.float64)
    two = np.partition(values, -2, axis=2)[:, :, -2:]
    margin = (two[:, :, 1] - two[:, :, 0]).min(axis=1)
    apart = np.ptp(values, axis=1).max(axis=1)
    return np.asarray(1 - margin + apart)


def seed_weights(answers: Float32Array, clearness: Float32Array | None = None) -> NDArray[np.float64]:
    """How often a search draws each real image, with a mean of 1.

    Args:
        answers: see :func:`energies`.
        clearness: float32 (N,), from 0 to 1, how clearly each image shows its label
            (:mod:`diffgen.sources.clearness`); its square counts, up to a half. None: nobody knows.

    Returns:
        float64 (N,).
    """
    energy = energies(answers)
    total = energy.sum()
    share = energy / total if total > 0 else np.full(len(energy), 1 / len(energy))
    weights = np.asarray(len(energy) * ((1 - _EVENLY) * share + _EVENLY / len(energy)))
    if clearness is not None:
        weights *= _UNCLEAR + np.minimum(1, clearness.astype(np.float64) / _CLEAR) ** 2
    return weights / weights.mean()
