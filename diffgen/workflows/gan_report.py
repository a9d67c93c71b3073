"""Draws the page of a GAN from its checkpoint and the images that it was trained on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import diffgen
from diffgen.data.split import split_rows
from diffgen.features.base import FeatureExtractor
from diffgen.gan_training.header import class_labels
from diffgen.report.gan_page import GanReportData, Pair, SheetRow, render_gan_page
from diffgen.runs.files import write_text
from diffgen.sources import gan as gan_loader
from diffgen.sources.base import Source
from diffgen.sources.gan_family import complaint, gan_facts, split_in_header
from diffgen.sources.space import random_genes
from diffgen.types import ImageSet, UInt8Array

_COLUMNS = 12
_MAX_ROWS = 20
_ROWS_WITHOUT_CLASSES = 8
_PAIRS = 20
_SEED = 0


def write_gan_report(path: Path, data: ImageSet, encoder: FeatureExtractor, *, device: torch.device) -> Path:
    """Write the page beside a checkpoint; returns where.

    Args:
        path: the checkpoint.
        data: the images that it was trained on.
        encoder: by which the nearest real image is found.

    Raises:
        UserError: the checkpoint cannot be read.
        RunError: the page cannot be written.
    """
    page = path.with_suffix(".html")
    write_text(page, render_gan_page(gan_report_data(path, data, encoder, device=device)))
    return page


def gan_report_data(path: Path, data: ImageSet, encoder: FeatureExtractor, *, device: torch.device) -> GanReportData:
    """Everything that the page shows."""
    source, _, stored = gan_loader.load(path, device=device)
    header = stored.header
    rows, held_out = split_rows(len(data), split_in_header(header))
    names = data.class_names or ()
    return GanReportData(
        name=path.name,
        version=header.get("version", diffgen.__version__),
        data_name=data.source,
        wrong=complaint(header["wrong"]) if header["wrong"] else None,
        facts=gan_facts(header, real=len(rows), held_out=len(held_out)),
        losses=stored.losses.numpy(),
        readings=tuple(header["readings"]),
        kept_step=header["kept_step"],
        labelled=data.labels is not None,
        class_names=names,
        sheet=_sheet(source, class_labels(header), names),
        pairs=_pairs(source, torch.from_numpy(data.images)[rows], encoder),
        scores=header.get("scores"),
        tuning=header.get("tuning"),
        settings=header["gan"],
    )


def _sheet(source: Source, labels: tuple[int, ...], names: tuple[str, ...]) -> tuple[SheetRow, ...]:
    rng = torch.Generator().manual_seed(_SEED)
    classes = range(min(source.space.categories[0], _MAX_ROWS)) if source.space.categories else None
    latents = random_genes(source.space, _COLUMNS * (_ROWS_WITHOUT_CLASSES if classes is None else len(classes)), rng)
    if classes is not None:
        latents[:, -1] = torch.tensor(classes).repeat_interleave(_COLUMNS)
    images = np.split(source.draw(latents).cpu().numpy(), len(latents) // _COLUMNS)
    if classes is None:
        return tuple(SheetRow("", row) for row in images)
    return tuple(
        SheetRow(names[label] if label < len(names) else str(label), row)
        for label, row in zip(labels[: len(classes)], images, strict=True)
    )


def _pairs(source: Source, real: torch.Tensor, encoder: FeatureExtractor) -> tuple[Pair, ...]:
    images = source.draw(random_genes(source.space, _PAIRS, torch.Generator().manual_seed(_SEED + 1)))
    found = torch.cdist(encoder.encode(images).cpu(), encoder.encode(real).cpu()).argmin(dim=1)
    generated: UInt8Array = images.cpu().numpy()
    nearest: UInt8Array = real[found].numpy()
    return tuple(Pair(one, other) for one, other in zip(generated, nearest, strict=True))
