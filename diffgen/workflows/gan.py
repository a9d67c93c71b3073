"""The GAN of a data set: trained once, then found in the cache."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from diffgen.config import GanConfig
from diffgen.errors import UserError
from diffgen.gan_training import checkpoint
from diffgen.gan_training.networks import check_image_shape
from diffgen.gan_training.split import split_rows
from diffgen.gan_training.trainer import train
from diffgen.generators import gan as gan_loader
from diffgen.runs.cache import cache_file
from diffgen.types import Generator, ImageSet, Progress, Scorer


@dataclass(frozen=True)
class DomainModels:
    """What is known of a data set's images.

    Attributes:
        generator: latent vector -> image.
        scorer: the discriminator.
        path: the GAN's checkpoint in the cache.
        facts: what a report says about the GAN, name -> text.
        reference: uint8 (N, C, H, W), real images that the GAN was trained on.
        held_out: uint8 (n, C, H, W), real images that it never saw.
    """

    generator: Generator
    scorer: Scorer
    path: Path
    facts: dict[str, str]
    reference: torch.Tensor
    held_out: torch.Tensor


def prepare_gan(data: ImageSet, config: GanConfig, *, device: torch.device, progress: Progress) -> DomainModels:
    """The GAN of a data set, from the cache or newly trained.

    Raises:
        UserError: no network fits the image size.
        RunError: the training diverged.
    """
    check_image_shape(data.image_shape)
    made_from = {"data": data.digest, "gan": asdict(config), "format": checkpoint.FORMAT, "device": device.type}
    path = cache_file("gan", made_from)
    training_rows, held_out_rows = split_rows(len(data), config)
    images = torch.from_numpy(data.images)
    reference = images[training_rows]
    loaded = _load_cached(path, device, progress)
    if loaded is None:
        progress.say(f"Training a GAN on {len(reference):,} images and their transformations (kept for the next run).")
        trained = train(reference, config, device=device, progress=progress)
        about = {**made_from, "torch": torch.__version__, "python": platform.python_version(), "source": data.source}
        checkpoint.save(path, trained, width=config.width, about=about)
        loaded = gan_loader.load(path, device=device)
    generator, scorer, stored = loaded
    assert scorer is not None
    facts = {
        "kind": "DCGAN, hinge loss, spectral norm, moving average",
        "latent vector": f"{generator.latent_dim} values, normal",
        "trained on": f"{stored.header['training_images']:,} images ({len(reference):,} real, and transformed)",
        "updates": f"{stored.header['steps']:,}",
        "held out": f"{len(held_out_rows):,} real images",
        "checkpoint": path.name,
    }
    return DomainModels(generator, scorer, path, facts, reference, images[held_out_rows])


def _load_cached(
    path: Path, device: torch.device, progress: Progress
) -> tuple[Generator, Scorer | None, checkpoint.GanCheckpoint] | None:
    if not path.is_file():
        return None
    try:
        loaded = gan_loader.load(path, device=device)
    except UserError as error:
        progress.warn(f"{error} Training it now.")
        return None
    progress.say(f"The GAN for this data set is in the cache ({path.name}); nothing to train.")
    return loaded
