"""Chooses the pictures that the report of a run shows."""

from __future__ import annotations

import numpy as np
import torch

from diffgen.comparison.plan import Prepared
from diffgen.data.split import DataSplit
from diffgen.filters import FilterPipeline, SsimFilter
from diffgen.judging.shown import choose_shown
from diffgen.runs.triggers import TriggerTable
from diffgen.sampling import random_rows
from diffgen.sources.space import random_genes
from diffgen.types import Int64Array, UInt8Array

_REJECTED_SHOWN = 24
_REAL_SHOWN = 60
_SAMPLES_SHOWN = 80


def write_shown(prepared: Prepared, triggers: TriggerTable) -> None:
    """Write report.npz: the numbers of the triggers that are shown, and the real and random pictures beside them."""
    data, real, pipeline = prepared.images, prepared.real, prepared.pipeline
    shown = choose_shown(triggers)
    rejected = _choose_rejected(triggers, len(pipeline.filters))
    pictures = triggers.images_of(np.concatenate([shown, rejected]))
    real_shown = np.sort(real.disagreements[random_rows(len(real.disagreements), _REAL_SHOWN)])
    prepared.folder.write_arrays(
        "report",
        {
            "shown": shown,
            "rejected": rejected,
            "nearest_real": _nearest_real(pipeline, prepared.split, pictures),
            "shown_scores": pipeline.scores(torch.from_numpy(pictures)),
            "held_out_scores": pipeline.calibration.scores,
            "samples": _samples(prepared),
            "real_rows": real_shown,
            "real_images": data.images[real_shown],
            "real_probabilities": real.answers[real_shown].dense(),
            "real_labels": np.full(len(real_shown), -1) if data.labels is None else data.labels[real_shown],
        },
    )


def _samples(prepared: Prepared) -> UInt8Array:
    """uint8 (N, C, H, W): what the source draws at random; none where it draws no picture of the run."""
    source = prepared.source.source
    if source is None:
        return np.empty((0, *prepared.images.image_shape), dtype=np.uint8)
    genes = random_genes(source.space, _SAMPLES_SHOWN, torch.Generator().manual_seed(prepared.config.seed))
    return np.asarray(source.draw(genes).cpu().numpy())


def _choose_rejected(triggers: TriggerTable, filters: int) -> Int64Array:
    """Trigger numbers of rejected pictures to show: equally many for each filter, evenly over the run."""
    chosen: list[int] = []
    for index in range(filters):
        rows = np.flatnonzero(triggers.confirmed & (triggers.known.rejected_by == index))
        picks = np.linspace(0, len(rows) - 1, min(_REJECTED_SHOWN // max(filters, 1), len(rows))).astype(np.int64)
        chosen.extend(rows[picks].tolist() if len(rows) else [])
    return np.asarray(chosen, dtype=np.int64)


def _nearest_real(pipeline: FilterPipeline, split: DataSplit, images: UInt8Array) -> UInt8Array:
    """uint8 (N, C, H, W): the real image with the highest SSIM, for each picture that is shown."""
    ssim = next((each for each in pipeline.filters if isinstance(each, SsimFilter)), None)
    if ssim is None:
        ssim = SsimFilter()
        ssim.fit(split.reference)
    return split.reference[ssim.nearest(torch.from_numpy(images))[1]].numpy()
