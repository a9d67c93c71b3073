"""Where the pictures of a comparison come from: the source that the settings ask for."""

from __future__ import annotations

from pathlib import Path

import torch

from diffgen import extensions
from diffgen.comparison.requirements import needs_of, uses_gan
from diffgen.config import CompareConfig, GeneratorConfig, replace
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.home import expanded
from diffgen.models.loading import file_digest
from diffgen.runs.folder import RunFolder
from diffgen.sources.base import FamilyContext, ImageSource
from diffgen.sources.registry import FAMILIES, family_of
from diffgen.techniques import preset_source

_ROLES = ("file", "discriminator", "encoder")  # settings that name files


def settled_generator(config: CompareConfig) -> CompareConfig:
    """The settings with whole paths, as a run folder keeps them.

    Where no family of sources is named, it is the GAN if there is a file of one, else what suits technique and preset.

    Raises:
        UserError: they speak of a generator but name none, do not say how long its latent vector is, or name a GAN too.
    """
    own = config.generator
    own = replace(own, file=_whole(own.file), discriminator=_whole(own.discriminator), encoder=_whole(own.encoder))
    if own.file is None and own != GeneratorConfig():
        raise UserError(
            "Latent length, prior, pixels, discriminator and encoder describe a generator of your own; name its file "
            "with --generator, or leave them out."
        )
    if own.file is not None and config.gan_file is not None:
        raise UserError("--gan and --generator both say where the pictures come from; leave one of them out.")
    if own.file is not None and own.latent_dim is None:
        raise UserError(f"The generator {own.file} needs the length of its latent vector; add --latent-dim N.")
    learned = replace(config.filters.learned, answers=_whole(config.filters.learned.answers))
    filters = replace(config.filters, learned=learned)
    config = replace(config, generator=own, gan_file=_whole(config.gan_file), filters=filters)
    config = family_of(config).settled(config)
    given = own.file is not None or extensions.in_use().generator is not None
    if config.source.family is not None or given or not needs_of(config).source:
        return config
    family = "gan" if config.gan_file is not None else preset_source(config.technique, config.preset)
    return replace(config, source=replace(config.source, family=family))


def _whole(path: str | Path | None) -> str | None:
    return None if path is None else str(expanded(path).absolute())


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


def try_out_source(config: CompareConfig, image_shape: tuple[int, int, int], device: torch.device) -> None:
    """See that files and objects that pictures come from do what is said of them, before anything is trained.

    Raises:
        UserError: they do not, for images of (C, H, W).
    """
    if needs_of(config).source or config.generator.file is not None:
        family_of(config).try_out(config, image_shape, device)


def prepare_source(split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
    """The source that the settings ask for, and a discriminator where something asks for one.

    Where neither technique nor filters ask for a source or a discriminator, there is none of either.

    Raises:
        UserError: no GAN fits the images, or the file's generator does not.
        RunError: the training diverged.
    """
    family, needed = family_of(config), needs_of(config).source
    made = ImageSource(real=not needed)
    if needed or config.generator.file is not None:
        made = family.prepare(split, config, context)
    if made.scorer is None and uses_gan(config):
        # its discriminator alone is asked for, and no encoder
        gan = FAMILIES["gan"].prepare(split, config, replace(context, encoding=False))
        # what draws the pictures is what a run must find again
        artifact = made.artifact or gan.artifact
        made = replace(made, scorer=gan.scorer, artifact=artifact, facts={**gan.facts, **made.facts})
    if needed:
        return made
    facts = {"pictures": "made from the real images, none by a generator", **made.facts}
    if made.artifact is None:
        facts |= {
            "discriminator": "none: neither technique nor filters ask for one, so that no GAN was trained",
            "compared with": f"{len(split.rows[0]):,} real images",
            "held out": f"{len(split.rows[1]):,} real images",
        }
    return replace(made, source=None, facts=facts, real=True)
