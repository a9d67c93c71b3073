"""Where the pictures of a comparison come from: the GAN of the data set, or a generator of the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch

from diffgen import extensions
from diffgen.comparison.gan_source import DomainModels, prepare_gan, read_gan
from diffgen.comparison.requirements import needs_of, uses_gan
from diffgen.config import CompareConfig, GeneratorConfig, replace
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.features.base import FeatureExtractor
from diffgen.gan_training.split import split_rows
from diffgen.models.loading import file_digest
from diffgen.runs.folder import RunFolder
from diffgen.sources.check import checked_source
from diffgen.sources.file import FileScorer, FileSource
from diffgen.types import ImageSet

_ROLES = ("file", "discriminator")  # settings that name files


def settled_generator(
    config: CompareConfig,
    *,
    file: str | Path | None = None,
    latent_dim: int | None = None,
    prior: Literal["normal", "uniform"] | None = None,
) -> CompareConfig:
    """The settings with those applied that were given by name, and with whole paths, as a run folder keeps them.

    Raises:
        UserError: they speak of a generator but name none, do not say how long its latent vector is, or name a GAN too.
    """
    own = config.generator
    own = replace(
        own,
        file=_whole(own.file if file is None else file),
        latent_dim=own.latent_dim if latent_dim is None else latent_dim,
        prior=own.prior if prior is None else prior,
        discriminator=_whole(own.discriminator),
    )
    if own.file is None and own != GeneratorConfig():
        raise UserError(
            "Latent length, prior, pixels and discriminator describe a generator of your own; name its file with "
            "--generator, or leave them out."
        )
    if own.file is not None and config.gan_file is not None:
        raise UserError("--gan and --generator both say where the pictures come from; leave one of them out.")
    if own.file is not None and own.latent_dim is None:
        raise UserError(f"The generator {own.file} needs the length of its latent vector; add --latent-dim N.")
    return replace(config, generator=own, gan_file=_whole(config.gan_file))


def _whole(path: str | Path | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())


def generator_digests(config: GeneratorConfig) -> dict[str, str]:
    """SHA-256 of the files of a generator of the user's own, by the setting that names them; empty for the GAN.

    Raises:
        UserError: a file cannot be read.
    """
    return {role: file_digest(path) for role in _ROLES if (path := getattr(config, role)) is not None}


def check_unchanged(config: GeneratorConfig, folder: RunFolder) -> None:
    """See that the generator's files are what the run was started with.

    Raises:
        UserError: one is gone or has changed.
    """
    before = folder.manifest.get("generator", {})
    for role, digest in generator_digests(config).items():
        if before.get(role) != digest:
            raise UserError(
                f"The file {getattr(config, role)} has changed since the run {folder.path} was started; put the old "
                "one back, or start a new run."
            )


def prepare_generator(
    data: ImageSet, config: CompareConfig, encoder: FeatureExtractor, *, device: torch.device, progress: Progress
) -> DomainModels:
    """The generator that the settings ask for: the GAN, trained if need be, or that of a file.

    Where neither technique nor filters ask for a generator or a discriminator, there is none of either.

    Args:
        data: the real images.
        config: names the file, or says how the GAN is trained.
        encoder: the data set's own, for the training of the GAN.
        device: where it computes.
        progress: told what the file turned out to be.

    Raises:
        UserError: no GAN fits the images, or the file's generator does not.
        RunError: the training diverged.
    """
    mutated = {} if needs_of(config).source else {"pictures": "made from the real images, none by a generator"}
    if uses_gan(config):
        gan = (
            prepare_gan(data, config.gan, encoder, device=device, progress=progress)
            if config.gan_file is None
            else read_gan(config.gan_file, data, config.gan, device=device, progress=progress)
        )
        return replace(gan, facts={**mutated, **gan.facts})
    given = extensions.in_use().generator
    if given is not None:
        return _given_source(given, data, config, progress)
    own = config.generator
    if own.file is None:
        rows, held_out_rows = split_rows(len(data), config.gan)
        images = torch.from_numpy(data.images)
        facts = {
            **mutated,
            "discriminator": "none: neither technique nor filters ask for one, so that no GAN was trained",
            "compared with": f"{len(rows):,} real images",
            "held out": f"{len(held_out_rows):,} real images",
        }
        return DomainModels(None, None, None, facts, images[rows], images[held_out_rows])
    generator = FileSource(own, data.image_shape, device=device)
    scorer = None
    if own.discriminator is not None:
        path = Path(own.discriminator)
        scorer = FileScorer(path, pixels=generator.pixels, image_shape=data.image_shape, device=device)
    rows, held_out_rows = split_rows(len(data), config.gan)
    images = torch.from_numpy(data.images)
    facts = {
        **mutated,
        "kind": f"your own, {generator.network.format}",
        "file": generator.network.name,
        "latent vector": f"{generator.latent_dim} values, {own.prior}",
        "pixels": f"{generator.pixels} ({'found out' if generator.detected else 'as said'})",
        "discriminator": "none given, so that there is no discriminator filter"
        if scorer is None
        else scorer.network.name,
        "compared with": f"{len(rows):,} real images, which it may or may not have been trained on",
        "held out": f"{len(held_out_rows):,} real images",
    }
    progress.say(
        f"Pictures come from {generator.network.name}, {generator.network.format}: {facts['latent vector']}; pixels "
        f"{facts['pixels']}; discriminator: {facts['discriminator']}."
    )
    return DomainModels(generator, scorer, Path(own.file), facts, images[rows], images[held_out_rows])


def _given_source(given: Any, data: ImageSet, config: CompareConfig, progress: Progress) -> DomainModels:
    """A source that is not diffgen's own; it comes without a discriminator."""
    name = extensions.name_of(given)
    source = checked_source(given, name, data.image_shape)
    rows, held_out_rows = split_rows(len(data), config.gan)
    images = torch.from_numpy(data.images)
    facts = {
        "kind": f"your own, {name}",
        "genes": f"{source.space.length} values",
        "discriminator": "none given, so that there is no discriminator filter",
        "compared with": f"{len(rows):,} real images, which it may or may not have been trained on",
        "held out": f"{len(held_out_rows):,} real images",
    }
    progress.say(f"Pictures come from {name}: {facts['genes']}; discriminator: {facts['discriminator']}.")
    return DomainModels(source, None, None, facts, images[rows], images[held_out_rows])
