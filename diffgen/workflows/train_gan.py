"""Trains the GAN of a data set, or searches for its settings, scores it and draws its report."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import diffgen
from diffgen.comparison.machine import resolve_device
from diffgen.comparison.real_data import load_stored
from diffgen.config import TrainGanConfig
from diffgen.data.split import DataSplit, split_rows
from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.features import cells as cell_store
from diffgen.features import loading as feature_loading
from diffgen.features.base import FeatureExtractor
from diffgen.gan_training.checkpoint import add_to_header, class_labels, read_header
from diffgen.gan_training.networks import check_count, check_image_shape, check_resize
from diffgen.numerics import own_numerics
from diffgen.report.gan_page import GanReportData, Pair, SheetRow, render_gan_page
from diffgen.runs.files import make_folder, write_text, write_whole
from diffgen.runs.outputs import output_file
from diffgen.sources import gan as gan_loader
from diffgen.sources.base import FamilyContext, Source
from diffgen.sources.gan import complaint, gan_artifact, gan_facts, split_in_header, train_and_save
from diffgen.sources.space import random_genes
from diffgen.types import ImageSet, Result, UInt8Array
from diffgen.workflows.gan_tuning import check_workers, score, tune_gan


@dataclass(frozen=True)
class TrainGanResult(Result):
    """What the training of a GAN gave.

    Attributes:
        gan: the checkpoint, where ``compare`` looks for it.
        report: the page beside it.
        copy: another copy, where one was asked for.
        readings: what the collapse guard saw, as JSON values.
        kept_step: step of the measurement that was kept.
        wrong: what is wrong with the GAN, in words, or None.
        scores: name -> mean over the draws.
        tuning: the study, or None: its name, the number of the best trial, that of all, of those pruned and failed,
            and the settings of the best.
    """

    gan: str
    report: str
    copy: str | None
    readings: tuple[dict[str, float], ...]
    kept_step: int
    wrong: str | None
    scores: dict[str, float]
    tuning: dict[str, Any] | None


@own_numerics()
def train_gan(
    data: Any,
    *,
    config: TrainGanConfig | None = None,
    output: str | Path | None = None,
    anew: bool = False,
    force: bool = False,
    workers: int = 1,
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> TrainGanResult:
    """Train the GAN of a data set and put it where ``compare`` looks for it.

    Args:
        data: real images; see :func:`diffgen.data.load`.
        config: all settings.
        output: another file that the GAN is copied to, its report beside it.
        anew: train although there is a GAN for these settings; a tuned one goes before an untuned one.
        force: replace the files of ``output``.
        workers: trials at once while it is tuned, each in a process of its own; more than one find other settings each
            time, since a trial learns from those that have ended by then.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: something given cannot be used.
        RunError: the training diverged, or every trial did.
    """
    progress = Progress(events, stop)
    config = config or TrainGanConfig()
    check_workers(workers, config)
    check_resize(config.resize)
    device = resolve_device(config.device)
    copy = None if output is None else _checked_output(Path(output), force=force)
    if config.tuning.trials:
        from diffgen.gan_training.study_storage import check_storage  # optuna is imported only for this

        check_storage(config.tuning.storage)
    images = load_stored(data, config, progress)
    check_image_shape(images.image_shape)
    check_count(len(images))
    split = DataSplit(images, config.split)
    artifact = gan_artifact(split, config.gan, device)
    path = artifact.path
    own = config.features == "domain" and config.features_weights is None
    # before anything is trained: weights that are missing are said at once
    published = (
        None
        if own
        else feature_loading.load(
            config.features, data=images, weights=config.features_weights, device=device, progress=progress
        )
    )
    encoder = cell_store.prepare(images, device=device, progress=progress).encoder
    context = FamilyContext(encoder, device, progress)
    if config.tuning.trials:
        tune_gan(split, config, context, path, workers=workers)
    else:

        def load(file: Path) -> None:
            read_header(file)
            progress.say(f"The GAN for this data set is in the cache ({file.name}); --anew trains it anew.")

        def make(file: Path) -> None:
            train_and_save(split, config.gan, context, file)

        artifact.obtain(load, make, progress, anew=anew)
    header = _scored(path, images, config, published or encoder, device=device, progress=progress)
    if header["wrong"]:
        progress.warn(complaint(header["wrong"]))
    page = write_gan_report(path, images, encoder, device=device)
    if copy is not None:
        make_folder(copy.parent)
        for source, target in ((path, copy), (page, copy.with_suffix(".html"))):
            write_whole(target, partial(shutil.copyfile, source))
    return TrainGanResult(
        gan=str(path),
        report=str(page if copy is None else copy.with_suffix(".html")),
        copy=None if copy is None else str(copy),
        readings=tuple(header["readings"]),
        kept_step=header["kept_step"],
        wrong=header["wrong"],
        scores={name: value["mean"] for name, value in header["scores"].items() if isinstance(value, dict)},
        tuning=_study_facts(header.get("tuning")),
    )


def _checked_output(path: Path, *, force: bool) -> Path:
    if path.suffix == ".html":
        raise UserError(f"The output {path} is the GAN's file, and its page stands beside it; name it .safetensors.")
    target = output_file(path, force=force, parents=True)
    output_file(target.with_suffix(".html"), force=force, parents=True)
    return target


def _study_facts(tuning: dict[str, Any] | None) -> dict[str, Any] | None:
    if tuning is None:
        return None
    states = [trial["state"] for trial in tuning["trials"]]
    return {
        "study": tuning["study"],
        "trials": len(states),
        "pruned": states.count("pruned"),
        "failed": states.count("failed"),
        "best": tuning["best"],
        "settings": tuning["settings"],
    }


# -- scores ----------------------------------------------------------------------------------------------------------


def _scored(
    path: Path,
    data: ImageSet,
    config: TrainGanConfig,
    extractor: FeatureExtractor,
    *,
    device: torch.device,
    progress: Progress,
) -> dict[str, Any]:
    """The header of a checkpoint with its scores, which are computed unless it has them."""
    while True:
        source, _, stored = gan_loader.load(path, device=device)
        # of a small data set no more are drawn than there are real ones
        images = min(config.images, len(data))
        asked = {"features": extractor.name, "draws": config.draws, "generated": images}
        known = stored.header.get("scores")
        if known is not None and {name: known[name] for name in asked} == asked:
            return stored.header
        found = score(source, data, None, extractor, draws=config.draws, images=images, progress=progress)
        # unless another process of the same study has put a better GAN there meanwhile
        if read_header(path) == stored.header:
            return add_to_header(path, {"scores": found.as_dict()})


_COLUMNS = 12
_MAX_ROWS = 20
_ROWS_WITHOUT_CLASSES = 8
_PAIRS = 20
_SEED = 0


def write_gan_report(path: Path, data: ImageSet, encoder: FeatureExtractor, *, device: torch.device) -> Path:
    """Write the page beside a checkpoint; returns where.

    Args:
        path: the checkpoint.
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
