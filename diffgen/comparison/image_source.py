"""Where the pictures of a comparison come from: the source that the settings ask for."""

from __future__ import annotations

from pathlib import Path

from diffgen.comparison.requirements import judge_of, needs_of, source_of
from diffgen.config import CompareConfig, GeneratorConfig, is_address, replace
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.home import expanded
from diffgen.models.loading import file_digest
from diffgen.runs.folder import RunFolder
from diffgen.sources.base import FamilyContext, ImageSource
from diffgen.sources.registry import family_of
from diffgen.techniques import preset, technique_class

_ROLES = ("file", "discriminator", "encoder")  # settings that name files


def settled_generator(config: CompareConfig) -> CompareConfig:
    """The settings with whole paths, as a run folder keeps them.

    Where no family of sources is named, it is the one that suits what is given, technique and preset.

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
    filters = replace(config.filters, learned_from=_whole(config.filters.learned_from))
    oracle = config.oracle
    oracle = oracle if oracle is not None and is_address(oracle) else _whole(oracle)
    if config.jury is not None and is_address(config.jury):
        raise UserError(f"--jury takes a file, and {config.jury} is an address; download the model.")
    gan, jury = _whole(config.gan_file), _whole(config.jury)
    config = replace(config, generator=own, gan_file=gan, filters=filters, oracle=oracle, jury=jury)
    if config.source.family is None:
        config = replace(config, source=replace(config.source, family=_usual_family(config)))
    drawing = family_of(config)
    return config if drawing is None else drawing.settled(config)


def _usual_family(config: CompareConfig) -> str | None:
    """The source where none is named: what files were given, or else what suits technique and preset."""
    if config.generator.file is not None:
        return "file"
    if "source" not in needs_of(config):
        return None
    return "gan" if config.gan_file is not None else preset(config.technique, config.preset).source


def _whole(path: str | Path | None) -> str | None:
    return None if path is None else str(expanded(path).absolute())


def generator_digests(config: GeneratorConfig) -> dict[str, str]:
    """SHA-256 of the files of a generator of the user's own, by setting. UserError if a file cannot be read."""
    return {role: file_digest(path) for role in _ROLES if (path := getattr(config, role)) is not None}


def check_unchanged(config: GeneratorConfig, folder: RunFolder) -> None:
    """See that the generator's files are what the run was started with. UserError if one is gone or has changed."""
    before = folder.manifest.get("generator", {})
    for role, digest in generator_digests(config).items():
        if before.get(role) != digest:
            raise UserError(
                f"The file {getattr(config, role)} has changed since the run {folder.path} was started; put the old "
                "one back, or start a new run."
            )


def prepare_source(split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
    """The source that the settings ask for, and a discriminator where something asks for one.

    Where neither technique nor filters ask for a source or a discriminator, there is none of either.

    Raises:
        UserError: no GAN fits the images, or the file's generator does not.
        RunError: the training diverged.
    """
    drawing, judge, needed = source_of(config), judge_of(config), "source" in needs_of(config)
    made = ImageSource(real=not needed, mild=technique_class(config.technique).asks_known_images)
    if drawing is not None:
        made = drawing.prepare(split, config, context)
    if made.scorer is None and judge is not None and (drawing is None or judge.name != drawing.name):
        # its discriminator alone is asked for, and no encoder
        judging = judge.prepare(split, config, replace(context, encoding=False))
        # what draws the pictures is what a run must find again
        artifact = made.artifact or judging.artifact
        made = replace(made, scorer=judging.scorer, artifact=artifact, facts={**judging.facts, **made.facts})
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
