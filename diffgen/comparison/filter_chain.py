"""The validity filters of a comparison: made, fitted and calibrated on the real images."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch

from diffgen.comparison.auto_encoder import prepare_auto_encoder
from diffgen.comparison.requirements import filter_names
from diffgen.config import CompareConfig
from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features.recognition import Recogniser
from diffgen.features.vae import Vae
from diffgen.filters import (
    DiscriminatorFilter,
    Filter,
    FilterPipeline,
    LearnedFilter,
    NeighborsFilter,
    RecognitionFilter,
    ReconstructionFilter,
    SsimFilter,
    foreign_filters,
)
from diffgen.labels.answers import read_answers
from diffgen.types import Scorer

_SEED = 0  # never the run's seed: all runs on a data set share its networks


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
    settings = config.filters

    def threshold(name: str) -> float:
        given = getattr(settings, name).threshold
        return math.nan if given is None else float(given)

    def auto_encoder(real: torch.Tensor) -> Vae:
        return prepare_auto_encoder(split, config, device=device, progress=progress)

    makers: dict[str, Callable[[], Filter]] = {
        "reconstruction": lambda: ReconstructionFilter(
            auto_encoder, threshold=threshold("reconstruction"), batch_size=batch_size
        ),
        "ssim": lambda: SsimFilter(threshold=threshold("ssim"), neighbors=settings.ssim.neighbors, device=device),
        "neighbors": lambda: NeighborsFilter(threshold=threshold("neighbors"), batch_size=batch_size, device=device),
    }
    if recogniser is not None:
        makers["jury"] = lambda: RecognitionFilter(recogniser, threshold=threshold("jury"), batch_size=batch_size)
    if scorer is not None:
        makers["discriminator"] = lambda: DiscriminatorFilter(
            scorer, threshold=threshold("discriminator"), batch_size=batch_size
        )
    if settings.learned.answers is not None:
        answers = Path(settings.learned.answers)
        makers["learned"] = lambda: _learned(
            answers, split, [make() for name, make in makers.items() if name != "learned"], settings.learned.threshold
        )
    names = filter_names(config, jury=recogniser is not None)
    foreign = foreign_filters(names)
    chain = [foreign.get(name) or makers[name]() for name in names if name in {*makers, *foreign}]
    pipeline = FilterPipeline(chain, false_alarm=settings.false_alarm)
    with progress.stage("Calibrating the filters on real images"):
        pipeline.fit(split.reference, split.held_out)
    return pipeline


def _learned(path: Path, split: DataSplit, parts: list[Filter], threshold: float | None) -> LearnedFilter:
    found = read_answers(path, split.data.image_shape)
    return LearnedFilter(parts, torch.from_numpy(found.images), found.valid, threshold=threshold or 0.0)
