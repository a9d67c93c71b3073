"""The auto-encoder of a data set, which the reconstruction filter and the operators of the source seeds share."""

from __future__ import annotations

from pathlib import Path

import torch

from diffgen.config import CompareConfig
from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features import vae as vaes
from diffgen.features.shrinking import lesson_rows, lessons
from diffgen.filters.reconstruction import ReconstructionFilter, ReconstructionSettings
from diffgen.runs.artifacts import Artifact

_SEED = 0  # never the run's seed: all runs on a data set share its networks


def prepare_auto_encoder(
    split: DataSplit, config: CompareConfig, *, device: torch.device, progress: Progress
) -> vaes.Vae:
    """The auto-encoder of the images to train on, from the cache or newly trained.

    Args:
        split: says which images are held out.
        config: says for how many steps it is trained.
        device: where to train, and where it is wanted.
        progress: draws the bar.
    """
    own: ReconstructionSettings = ReconstructionFilter.settings_among(config.filters.filters)
    steps, shape = own.training_steps, split.data.image_shape

    def make(path: Path) -> vaes.Vae:
        images = split.data.images
        real = lessons(images, lesson_rows(images, split.all_rows[0].numpy()))
        network = vaes.train(real, steps=steps, seed=_SEED, device=device, progress=progress)
        vaes.save(network, path)
        return network

    made_from = {"data": split.data.digest, "held out": split.key, "device": device.type}
    artifact = Artifact("filters", {**made_from, "vae": vaes.FORMAT, "steps": steps})
    return artifact.obtain(lambda file: vaes.load(file, shape, device=device), make, progress)
