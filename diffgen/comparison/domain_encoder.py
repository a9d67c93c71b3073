"""The encoder that knows the GAN's training images and none of those that are held out."""

from __future__ import annotations

import torch

from diffgen.config import GanConfig
from diffgen.events import Progress
from diffgen.features import encoder as encoders
from diffgen.gan_training.split import split_rows
from diffgen.runs.cache import cache_file, cached
from diffgen.types import ImageSet

_SEED = 0  # never the run's seed: all runs on a data set share its networks


def prepare_encoder(
    data: ImageSet, config: GanConfig, *, device: torch.device, progress: Progress
) -> encoders.DomainEncoder:
    """The encoder of a data set, from the cache or newly trained.

    Not that of the cells, which has seen the held-out images too.

    Args:
        data: the real images.
        config: says which of them are held out.
        device: where to train, and where the encoder is wanted.
        progress: draws the bar.
    """
    held_out = [config.holdout, config.seed]
    path = cache_file(
        "filters", {"data": data.digest, "held out": held_out, "device": device.type, "encoder": encoders.FORMAT}
    )

    def make() -> encoders.DomainEncoder:
        rows = split_rows(len(data), config)[0]
        labels = None if data.labels is None else torch.from_numpy(data.labels)[rows]
        images = torch.from_numpy(data.images)[rows]
        network = encoders.train(images, labels, seed=_SEED, device=device, progress=progress)
        encoders.save(network, path)
        return network

    return cached(path, lambda file: encoders.load(file, data.image_shape, device=device), make, progress)
