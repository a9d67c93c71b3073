"""The validity filters of a comparison and the networks that they ask, trained once for a data set."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from diffgen.comparison.requirements import filter_names
from diffgen.config import CompareConfig
from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features import encoder as encoders
from diffgen.features import vae as vaes
from diffgen.features.jury import Recogniser
from diffgen.features.shrinking import lesson_rows, lessons
from diffgen.filters import FILTERS, Filter, FilterContext, FilterPipeline, filters_named
from diffgen.filters.reconstruction import ReconstructionFilter, ReconstructionSettings
from diffgen.labels.answers import read_answers
from diffgen.runs.artifacts import Artifact, read_network, write_tensors
from diffgen.types import Scorer

_SEED = 0  # never the run's seed: all runs on a data set share its networks


def prepare_encoder(split: DataSplit, *, device: torch.device, progress: Progress) -> encoders.DomainEncoder:
    """The encoder of a data set, from the cache or newly trained.

    Not that of the cells, which has seen the held-out images too.

    Args:
        device: where to train, and where the encoder is wanted.
    """

    def make(path: Path) -> encoders.DomainEncoder:
        labels = None if split.labels is None else split.labels[0]
        network = encoders.train(split.reference, labels, seed=_SEED, device=device, progress=progress)
        write_tensors(path, network.state_dict())
        return network

    artifact = Artifact(
        "filters",
        {"data": split.data.digest, "held out": split.key, "device": device.type, "encoder": encoders.FORMAT},
    )
    shape = split.data.image_shape

    def load(path: Path) -> encoders.DomainEncoder:
        return read_network(partial(encoders.DomainEncoder, shape), path, "The encoder", device=device)

    return artifact.obtain(load, make, progress)


def prepare_auto_encoder(
    split: DataSplit, config: CompareConfig, *, device: torch.device, progress: Progress
) -> vaes.Vae:
    """The auto-encoder of the images to train on, from the cache or newly trained.

    Args:
        config: says for how many steps it is trained.
        device: where to train, and where it is wanted.
    """
    own: ReconstructionSettings = ReconstructionFilter.settings_among(config.filters.filters)
    steps, shape = own.training_steps, split.data.image_shape

    def make(path: Path) -> vaes.Vae:
        images = split.data.images
        real = lessons(images, lesson_rows(images, split.all_rows[0].numpy()))
        network = vaes.train(real, steps=steps, seed=_SEED, device=device, progress=progress)
        write_tensors(path, network.state_dict())
        return network

    made_from = {"data": split.data.digest, "held out": split.key, "device": device.type}
    artifact = Artifact("filters", {**made_from, "vae": vaes.FORMAT, "steps": steps})

    def load(path: Path) -> vaes.Vae:
        return read_network(partial(vaes.Vae, shape), path, "The auto-encoder", device=device)

    return artifact.obtain(load, make, progress)


def make_pipeline(
    split: DataSplit,
    scorer: Scorer | None,
    config: CompareConfig,
    *,
    recogniser: Recogniser | None = None,
    batch_size: int,
    device: torch.device,
    progress: Progress,
) -> FilterPipeline:
    """The filters that the settings name, fitted to the images to train on and calibrated on the held-out ones.

    Where a generator came without a discriminator, or there is no jury, that filter is left out.
    """
    settings, answers = config.filters, None
    if settings.learned_from is not None:
        given = read_answers(Path(settings.learned_from), split.data.image_shape)
        answers = torch.from_numpy(given.images), given.valid
    context = FilterContext(
        settings.filters,
        batch_size,
        device,
        lambda real: prepare_auto_encoder(split, config, device=device, progress=progress),
        scorer,
        recogniser,
        answers,
    )

    def others() -> list[Filter]:
        return [each.make(context) for each in FILTERS.own().values() if each.needs <= context.has() - {"answers"}]

    context = replace(context, others=others)
    named = filters_named(filter_names(config, jury=recogniser is not None)).values()
    chain = [each if isinstance(each, Filter) else each.make(context) for each in named if each.needs <= context.has()]
    pipeline = FilterPipeline(chain, false_alarm=settings.false_alarm)
    with progress.stage("Calibrating the filters on real images"):
        pipeline.fit(split.reference, split.held_out)
    return pipeline
