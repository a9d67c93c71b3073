"""The encoder that knows the images to train on and none of those that are held out."""

from __future__ import annotations

from pathlib import Path

import torch

from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features import encoder as encoders
from diffgen.runs.artifacts import Artifact

_SEED = 0  # never the run's seed: all runs on a data set share its networks


def prepare_encoder(split: DataSplit, *, device: torch.device, progress: Progress) -> encoders.DomainEncoder:
    """The encoder of a data set, from the cache or newly trained.

    Not that of the cells, which has seen the held-out images too.

    Args:
        split: says which images are held out.
        device: where to train, and where the encoder is wanted.
        progress: draws the bar.
    """

    def make(path: Path) -> encoders.DomainEncoder:
        labels = None if split.labels is None else split.labels[0]
        network = encoders.train(split.reference, labels, seed=_SEED, device=device, progress=progress)
        encoders.save(network, path)
        return network

    artifact = Artifact(
        "filters",
        {"data": split.data.digest, "held out": split.key, "device": device.type, "encoder": encoders.FORMAT},
    )
    shape = split.data.image_shape
    return artifact.obtain(lambda file: encoders.load(file, shape, device=device), make, progress)
