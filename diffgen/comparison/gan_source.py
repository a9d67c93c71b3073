"""The GAN of a data set: trained once, then found in the cache."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from diffgen.config import GanConfig, replace
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.features.base import FeatureExtractor
from diffgen.gan_training import checkpoint
from diffgen.gan_training.header import read_header
from diffgen.gan_training.monitor import GanMonitor, Measurement, collapse
from diffgen.gan_training.networks import check_image_shape
from diffgen.gan_training.split import split_rows
from diffgen.gan_training.trainer import TrainedGan, train
from diffgen.runs.cache import cache_file, cached
from diffgen.sources import gan as gan_loader
from diffgen.sources.base import Source
from diffgen.types import ImageSet, Scorer


@dataclass(frozen=True)
class DomainModels:
    """What is known of a data set's images.

    Attributes:
        source: genes -> image, or None: nothing asks for one.
        scorer: the discriminator, or None: there is none.
        path: the GAN's checkpoint in the cache, or the file of a generator of the user's own, or None.
        facts: what a report says about the generator, name -> text.
        reference: uint8 (N, C, H, W), real images that the GAN was trained on.
        held_out: uint8 (n, C, H, W), real images that it never saw.
    """

    source: Source | None
    scorer: Scorer | None
    path: Path | None
    facts: dict[str, str]
    reference: torch.Tensor
    held_out: torch.Tensor


def prepare_gan(
    data: ImageSet, config: GanConfig, encoder: FeatureExtractor, *, device: torch.device, progress: Progress
) -> DomainModels:
    """The GAN of a data set, from the cache or newly trained.

    Args:
        data: the real images.
        config: the GAN's.
        encoder: the data set's own, by which the collapse guard measures the GAN during training.
        device: where to train, and where the networks are wanted.
        progress: draws the bar and says what is wrong with the GAN, if something is.

    Raises:
        UserError: no network fits the image size.
        RunError: the training diverged.
    """
    check_image_shape(data.image_shape)
    path = cache_file("gan", made_from(data, config, device))
    rows, held_out_rows = split_rows(len(data), config)
    images = torch.from_numpy(data.images)

    def load(file: Path) -> tuple[Source, Scorer | None, checkpoint.GanCheckpoint]:
        found = gan_loader.load(file, device=device)
        progress.say(f"The GAN for this data set is in the cache ({file.name}); nothing to train.")
        return found

    def make() -> tuple[Source, Scorer | None, checkpoint.GanCheckpoint]:
        progress.say(f"Training a GAN on {len(rows):,} images and their transformations (kept for the next run).")
        train_and_save(data, config, encoder, path, device=device, progress=progress)
        return gan_loader.load(path, device=device)

    source, scorer, stored = cached(path, load, make, progress)
    assert scorer is not None
    wrong = stored.header["wrong"]
    if wrong:
        progress.warn(complaint(wrong))
    facts = gan_facts(stored.header, real=len(rows), held_out=len(held_out_rows))
    return DomainModels(
        source,
        scorer,
        path,
        {**facts, "checkpoint": path.name},
        images[rows],
        images[held_out_rows],
    )


def settings_of(file: str | Path, data: ImageSet, config: GanConfig, progress: Progress) -> GanConfig:
    """Take ``holdout`` and ``seed`` from the GAN file, so that its held-out images are the ones it was not trained on.

    Raises:
        UserError: the file is no such checkpoint, or its images have another shape than the data's.
    """
    path = Path(file)
    if not path.is_file():
        raise UserError(f"There is no GAN {path}; make one with 'diffgen train-gan DATA --output {path.name}'.")
    header = read_header(path)
    made, wanted = header.get("image_shape"), list(data.image_shape)
    if made != wanted:
        raise UserError(f"The GAN {path} draws images of {made}, but the data are {wanted}; give the one of this data.")
    if header.get("data") != data.digest:
        progress.warn(
            f"The GAN {path.name} was trained on other images than {data.source}; some of those that the filters are "
            "calibrated on may have trained it."
        )
        return config
    try:
        holdout, seed = float(header["gan"]["holdout"]), int(header["gan"]["seed"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"The GAN {path} does not say which images it was trained on; train it anew.") from error
    return replace(config, holdout=holdout, seed=seed)


def read_gan(
    file: str | Path, data: ImageSet, config: GanConfig, *, device: torch.device, progress: Progress
) -> DomainModels:
    """A GAN that was trained before and is kept in a file of its own, so that nothing is trained.

    Raises:
        UserError: see :func:`settings_of`.
    """
    path = Path(file)
    source, scorer, stored = gan_loader.load(path, device=device)
    rows, held_out_rows = split_rows(len(data), config)
    images = torch.from_numpy(data.images)
    facts = gan_facts(stored.header, real=len(rows), held_out=len(held_out_rows))
    progress.say(f"Pictures come from the GAN {path.name}; nothing to train.")
    return DomainModels(
        source,
        scorer,
        path,
        {**facts, "checkpoint": path.name},
        images[rows],
        images[held_out_rows],
    )


def made_from(data: ImageSet, config: GanConfig, device: torch.device) -> dict[str, Any]:
    """What decides about a GAN's weights; its place in the cache follows from it."""
    made = {"data": data.digest, "gan": asdict(config), "format": checkpoint.FORMAT, "device": device.type}
    if config.conditional and data.labels is not None:
        present = np.unique(data.labels)
        if len(present) <= present[-1]:
            # the labels have gaps: version 0.1 took every number up to the largest for a class
            made["class_labels"] = present.tolist()
    return made


def train_and_save(
    data: ImageSet,
    config: GanConfig,
    encoder: FeatureExtractor,
    path: Path,
    *,
    device: torch.device,
    progress: Progress,
    about: dict[str, Any] | None = None,
    monitor: GanMonitor | None = None,
    after_measurement: Callable[[Measurement], None] | None = None,
) -> TrainedGan:
    """Train a GAN on a data set and write its checkpoint; unfinished training beside it is taken up.

    Args:
        about: what else the checkpoint's header shall say.
        monitor: the collapse guard, if not one made for this training.
        after_measurement: is told every measurement of the guard, and may raise to end the training.

    Raises:
        RunError: the training diverged.
    """
    rows, _ = split_rows(len(data), config)
    trained = train(
        torch.from_numpy(data.images)[rows],
        config,
        labels=None if data.labels is None else torch.from_numpy(data.labels)[rows],
        monitor=monitor or make_monitor(data, config, encoder),
        device=device,
        state=path.with_suffix(".unfinished"),
        progress=progress,
        after_measurement=after_measurement,
    )
    header = {
        **made_from(data, config, device),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "source": data.source,
        "seed": config.seed,
        "wrong": None if trained.kept is None else collapse(trained.kept),
        **(about or {}),
    }
    checkpoint.save(path, trained, width=config.width, about=header)
    return trained


_Monitor = TypeVar("_Monitor", bound=GanMonitor)


def make_monitor(
    data: ImageSet,
    config: GanConfig,
    encoder: FeatureExtractor,
    kind: type[_Monitor] = GanMonitor,  # type: ignore[assignment]
) -> _Monitor:
    """The collapse guard of a data set: it knows which images train the GAN and which are held out."""
    images = torch.from_numpy(data.images)
    labels = None if data.labels is None else torch.from_numpy(data.labels)
    rows, held_out = split_rows(len(data), config)
    if labels is None:
        return kind(encoder, images[rows], images[held_out])
    return kind(encoder, images[rows], images[held_out], labels[rows], labels[held_out])


def complaint(wrong: str) -> str:
    """What to say of a GAN that is no good, and what to do about it."""
    return (
        f"The GAN is of little use: {wrong}. Train it longer (--gan-schedule thorough), with another seed "
        "(--gan-seed), or give it more images; few triggers are to be expected from this one."
    )


def gan_facts(header: dict[str, Any], *, real: int, held_out: int) -> dict[str, str]:
    """What a report says about a GAN, name -> text."""
    kind = "class-conditional DCGAN" if header["classes"] else "DCGAN"
    facts = {
        "kind": f"{kind}, hinge loss, spectral norm, moving average",
        "latent vector": f"{header['latent_dim']} values, normal"
        + (f", and one of {header['classes']} classes" if header["classes"] else ""),
        "trained on": f"{header['training_images']:,} images ({real:,} real, and transformed)",
        "updates": f"{header['steps']:,}, kept as it was after {header['kept_step']:,}",
        "held out": f"{held_out:,} real images",
    }
    kept = next((each for each in header["readings"] if each["step"] == header["kept_step"]), None)
    if kept is not None:
        facts["recognised"] = f"{kept['recognised']:.1%} of its images (by the data set's own encoder)"
        facts["covered"] = f"{kept['covered']:.1%} of the real images, {kept['least_covered']:.1%} in the worst class"
    if header["wrong"]:
        facts["warning"] = header["wrong"]
    return facts
