"""Which real images a search prefers: what the models say of them, and how clearly each shows its label."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features.jury import Names
from diffgen.runs.artifacts import Artifact, read_tensors, unreadable, write_tensors
from diffgen.tasks.classification import smallest_margin
from diffgen.types import Float32Array, Int64Array, UInt8Array

FORMAT = "diffgen-clearness-1"
_AT_ONCE = 1024  # images, between two steps of the bar


def prepare_clearness(split: DataSplit, jury: Names, progress: Progress) -> Float32Array:
    """The clearness of every real image of a data set, float32 (N,), from the cache or asked for now."""
    data = split.data

    def make(path: Path) -> Float32Array:
        found = clearness(data.images, data.labels, jury, progress)
        write_tensors(path, {"clearness": torch.from_numpy(found)})
        return found

    made_from = {
        "clearness": FORMAT,
        "data": data.digest,
        "jury": jury.digest,
    }
    return Artifact("filters", made_from).obtain(_read, make, progress)


def clearness(images: UInt8Array, labels: Int64Array | None, jury: Names, progress: Progress) -> Float32Array:
    """What the jury gives the label of each image.

    Args:
        images: uint8 (N, C, H, W).
        labels: int64 (N,); None: what it gives its own name of the image counts.

    Returns:
        float32 (N,), from 0 (it sees something else, or has never seen that label) to 1.
    """
    found = np.zeros(len(images), dtype=np.float32)
    with progress.stage("Asking the jury about the real images", total=len(images)) as task:
        for start in range(0, len(images), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            said = jury.answers(torch.from_numpy(images[some])).numpy()
            if labels is None:
                found[some] = said.max(axis=1)
            else:
                found[some] = (said * (jury.labels == labels[some, None])).sum(axis=1)
            task.advance(len(said))
    return found


def _read(path: Path) -> Float32Array:
    try:
        return np.asarray(read_tensors(path)[1]["clearness"].numpy(), dtype=np.float32)
    except (OSError, ValueError, KeyError) as error:
        raise unreadable("The file of the images' clearness", path, error) from error


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
    apart = np.ptp(values, axis=1).max(axis=1)
    return np.asarray(1 - smallest_margin(values) + apart)


def seed_weights(answers: Float32Array, clearness: Float32Array | None = None) -> NDArray[np.float64]:
    """How often a search draws each real image, with a mean of 1.

    Args:
        answers: see :func:`energies`.
        clearness: float32 (N,), from 0 to 1, how clearly each image shows its label
            (:mod:`diffgen.sources.preferences`); its square counts, up to a half. None: nobody knows.

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
