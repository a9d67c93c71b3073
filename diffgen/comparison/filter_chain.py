"""The validity filters of a comparison: made, fitted and calibrated on the real images."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from diffgen.comparison.domain_encoder import prepare_encoder
from diffgen.comparison.gan_source import DomainModels
from diffgen.config import CompareConfig
from diffgen.events import Progress
from diffgen.features import vae as vaes
from diffgen.features.encoder import DomainEncoder
from diffgen.filters import (
    DiscriminatorFilter,
    Filter,
    FilterPipeline,
    NeighborsFilter,
    ReconstructionFilter,
    SsimFilter,
    foreign_filters,
)
from diffgen.runs.cache import cache_file, cached
from diffgen.types import ImageSet

_SEED = 0  # never the run's seed: all runs on a data set share its networks


def make_pipeline(
    data: ImageSet,
    domain: DomainModels,
    config: CompareConfig,
    *,
    batch_size: int,
    device: torch.device,
    progress: Progress,
) -> FilterPipeline:
    """The filters that the settings name, fitted to the GAN's training images and calibrated on the held-out ones.

    Where a generator came without a discriminator, that filter is left out.
    """
    settings = config.filters
    made_from = {"data": data.digest, "held out": [config.gan.holdout, config.gan.seed], "device": device.type}

    def threshold(name: str) -> float:
        given = getattr(settings, f"{name}_threshold")
        return math.nan if given is None else float(given)

    def auto_encoder(real: torch.Tensor) -> vaes.Vae:
        path = cache_file("filters", {**made_from, "vae": vaes.FORMAT, "steps": settings.training_steps})

        def make() -> vaes.Vae:
            network = vaes.train(real, steps=settings.training_steps, seed=_SEED, device=device, progress=progress)
            vaes.save(network, path)
            return network

        return cached(path, lambda file: vaes.load(file, data.image_shape, device=device), make, progress)

    def domain_encoder(real: torch.Tensor) -> DomainEncoder:
        return prepare_encoder(data, config.gan, device=device, progress=progress)

    makers: dict[str, Callable[[], Filter]] = {
        "reconstruction": lambda: ReconstructionFilter(
            auto_encoder, threshold=threshold("reconstruction"), batch_size=batch_size
        ),
        "ssim": lambda: SsimFilter(threshold=threshold("ssim"), neighbors=settings.ssim_neighbors, device=device),
        "neighbors": lambda: NeighborsFilter(domain_encoder, threshold=threshold("neighbors"), batch_size=batch_size),
    }
    scorer = domain.scorer
    if scorer is not None:
        makers["discriminator"] = lambda: DiscriminatorFilter(
            scorer, threshold=threshold("discriminator"), batch_size=batch_size
        )
    foreign = foreign_filters(settings.names)
    chain = [foreign.get(name) or makers[name]() for name in settings.names if name in {*makers, *foreign}]
    pipeline = FilterPipeline(chain, false_alarm=settings.false_alarm)
    pipeline.fit(domain.reference, domain.held_out)
    return pipeline
