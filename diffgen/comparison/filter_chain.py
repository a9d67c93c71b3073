"""The validity filters of a comparison: made, fitted and calibrated on the real images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from diffgen.comparison.auto_encoder import prepare_auto_encoder
from diffgen.comparison.requirements import filter_names
from diffgen.config import CompareConfig
from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features.recognition import Recogniser
from diffgen.filters import FILTERS, Filter, FilterContext, FilterPipeline, filters_named
from diffgen.labels.answers import read_answers
from diffgen.types import Scorer


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
