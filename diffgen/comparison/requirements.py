"""Checks, before anything runs, that settings and data fit what the technique needs."""

from __future__ import annotations

from collections.abc import Sequence

from diffgen import extensions
from diffgen.comparison.own_settings import check_own_settings
from diffgen.config import CompareConfig, replace, roles
from diffgen.data.resize import LARGEST
from diffgen.errors import UserError
from diffgen.filters import foreign_filters
from diffgen.gan_training.networks import check_resize
from diffgen.models import BlackBox
from diffgen.models.answer_table import AnswerTable
from diffgen.search.staging import FEWEST
from diffgen.sources.registry import FAMILIES, family_of
from diffgen.tasks.classification import listed
from diffgen.techniques import TECHNIQUES, Needs, RealImages, technique_class
from diffgen.types import ImageSet

_DEFAULT = ("neighbors", "jury", "ssim")  # cheapest first: what one rejects no other is asked about
_SMALLEST_SIDE = 8  # of images that the domain encoder and SSIM can look at


def needs_of(config: CompareConfig) -> Needs:
    """What the technique of these settings needs.

    Raises:
        UserError: there is no such technique.
    """
    return technique_class(config.technique).needs(config.search)


def uses_gan(config: CompareConfig) -> bool:
    """Whether there is a GAN: for the pictures, or for its discriminator, in the search or as a filter."""
    names = config.filters.names
    # where nobody named the filters, a GAN that is there already is asked
    judges = config.gan_file is not None if names is None else "discriminator" in names
    foreign = config.generator.file is not None or extensions.in_use().generator is not None
    return (_searches_with_gan(config) or judges) and not foreign


def _searches_with_gan(config: CompareConfig) -> bool:
    """Whether the search itself has a GAN when it begins."""
    needs = needs_of(config)
    return (needs.source and family_of(config).name == "gan") or needs.discriminator


def uses_auto_encoder(config: CompareConfig, *, jury: bool) -> bool:
    """Whether source or filters ask for the auto-encoder of the real images.

    Args:
        config: all settings.
        jury: whether there is a jury.
    """
    draws_with_it = needs_of(config).source and family_of(config).uses_auto_encoder(config)
    return draws_with_it or "reconstruction" in filter_names(config, jury=jury)


def filter_names(config: CompareConfig, *, jury: bool = True) -> tuple[str, ...]:
    """The filters: those that the settings name; else nearness to real images, the jury and SSIM.

    Of generated digits these keep most of what people accept, and reject nearly all of what they do not; nearness and
    jury alone would let through areas of one grey and pictures of another kind (benchmarks/results/human-labelled.md).
    Without a jury: the others that need nothing trained that is not there anyway; the discriminator is asked where the
    run has one.

    Args:
        config: all settings.
        jury: whether there is one.
    """
    if config.filters.names is not None:
        return config.filters.names
    if jury:
        # a discriminator that was given, or a GAN that the search does without, is there to judge
        spare = config.gan_file is not None and not _searches_with_gan(config)
        judges = spare or config.generator.discriminator is not None
        return ("discriminator", *_DEFAULT) if judges else _DEFAULT
    scored = uses_gan(config) or config.generator.discriminator is not None
    return ("discriminator", "reconstruction", "ssim") if scored else ("reconstruction", "ssim")


def check_settings(config: CompareConfig) -> None:
    """See that the settings fit the technique.

    Raises:
        UserError: they do not.
    """
    check_own_settings(config)
    needs, own, family = needs_of(config), config.generator, family_of(config)
    foreign_filters(config.filters.names or ())
    answers, learns = config.filters.learned.answers, "learned" in (config.filters.names or ())
    if learns and answers is None:
        raise UserError(
            "The filter learned has no answers to learn from; name a run whose pictures people labelled, or a file of "
            "answers, with --learned-from, or leave it out of --filters."
        )
    if answers is not None and not learns:
        raise UserError(
            f"No filter learns from the answers {answers}; add learned to --filters, or leave --learned-from out."
        )
    given = extensions.in_use().generator
    if given is not None and not needs.source:
        raise UserError(
            f"The technique {config.technique} makes its pictures from the real images and asks no generator; leave "
            "generator= out."
        )
    if given is not None and needs.discriminator:
        raise UserError(
            f"The technique {config.technique} asks a discriminator how real its pictures are, and the generator "
            f"{extensions.name_of(given)} comes without; leave generator= out, or use another technique."
        )
    family.check(config)
    if own.file is not None and family.name in FAMILIES and family.name != "file":
        raise UserError(
            f"--generator {own.file} and --source {family.name} both say where the pictures come from; leave one of "
            "them out."
        )
    if needs.encoder and not family.encodes_with(config):
        able = [each.name for each in FAMILIES.values() if each.encodes]
        own_encoder = {
            "file": ", or add --generator-encoder FILE",
            "given": ", or give the generator a method encode (diffgen.sources.base.EncodingSource)",
        }.get(family.name, "")
        raise UserError(
            f"The technique {config.technique} turns real images into genes, which the source {family.name} cannot; "
            + (f"use --source {' or '.join(able)}{own_encoder}." if able else "use another technique.")
        )
    if needs.between and not family.between:
        able = [each.name for each in FAMILIES.values() if each.encodes and each.between]
        raise UserError(
            f"The technique {config.technique} draws what lies between two real images, and the source {family.name} "
            f"draws nothing there; use --source {' or '.join(able)}."
        )
    if config.source.family == "seeds" and not needs.source:
        raise UserError(
            f"The technique {config.technique} makes its pictures from the real images itself; leave --source out."
        )
    if config.technique == "seeds" and family.name != "seeds":
        raise UserError(
            f"The technique seeds draws from real images alone, not from the source {family.name}; leave --source and "
            "--generator out, or use --technique diffgan."
        )
    if uses_gan(config):
        check_resize(config.resize)
    elif config.gan_file is not None and own.file is None:
        raise UserError(
            f"Neither the technique {config.technique} nor the filters ask for a GAN; leave --gan out, or add the "
            "filter discriminator."
        )
    if own.file is not None and needs.discriminator and own.discriminator is None:
        raise UserError(
            f"The technique {config.technique} asks a discriminator how real its pictures are, and the generator "
            f'{own.file} has none; add --discriminator, or set fidelity = "none" under '
            f"[search.{config.technique}] in a --config file."
        )
    if own.file is not None and not needs.source and own.discriminator is None:
        raise UserError(
            f"The technique {config.technique} makes its pictures from the real images and asks no generator; leave "
            "--generator out, or give --discriminator with it for the filter."
        )
    if config.search.validity in ("constraint", "objective") and not needs.filters:
        able = [name for name in sorted(TECHNIQUES) if technique_class(name).needs(config.search).filters]
        raise UserError(
            f"The technique {config.technique} does not ask the filters in the search, but --validity is "
            f"{config.search.validity}; leave it out, or use --technique {' or '.join(able)}."
        )


def unused_source(config: CompareConfig) -> str:
    """A sentence about a source that the settings name and the technique draws nothing from; empty: there is none."""
    family = config.source.family
    if family is None or needs_of(config).source or config.generator.file is not None:
        return ""
    return (
        f"The technique {config.technique} makes its pictures from the real images itself and draws none from the "
        f"source {family}; leave --source out, or use a technique that draws from it."
    )


def without_unused_source(config: CompareConfig) -> CompareConfig:
    """The same without a source that the technique draws nothing from, for settings that several techniques share."""
    return replace(config, source=replace(config.source, family=None)) if unused_source(config) else config


def asks_filters_in_search(config: CompareConfig) -> bool:
    """Whether the search itself asks the validity filters about its triggers."""
    return needs_of(config).filters and config.search.validity != "post" and bool(filter_names(config))


def check_models(config: CompareConfig, count: int) -> None:
    """See that the technique can work with so many models.

    Raises:
        UserError: it cannot.
    """
    needed = needs_of(config).models
    if needed is not None and needed != count:
        raise UserError(
            f"The technique {config.technique} compares {needed} models, not {count}; use another technique."
        )
    if config.ask == "staged" and count < FEWEST:
        raise UserError(
            f"Asking in stages begins with two models and spares the others, so it takes {FEWEST} models or more, not "
            f"{count}; leave --ask staged out."
        )


def check_tables(config: CompareConfig, models: Sequence[BlackBox]) -> None:
    """See that a model that is only a table of answers is asked about no new image.

    Raises:
        UserError: it would be.
    """
    tables = [role for role, model in zip(roles(models), models, strict=True) if isinstance(model, AnswerTable)]
    if tables and not technique_class(config.technique).asks_known_images:
        one = len(tables) == 1
        raise UserError(
            f"{'Model' if one else 'Models'} {listed(tables)} {'is a table' if one else 'are tables'} of answers, and "
            f"the technique {config.technique} asks about new images, which no table lists; give the model itself, or "
            "take --technique as_is, which asks about the real images alone."
        )


def check_images(config: CompareConfig, images: ImageSet) -> None:
    """See that the real images are what the technique, the GAN and the filters can work with.

    Raises:
        UserError: they are not.
    """
    if needs_of(config).labels and images.labels is None:
        others = [name for name in sorted(TECHNIQUES) if not technique_class(name).needs(config.search).labels]
        missing = f"the data {images.source} has none; give labelled images"
        if config.data_labels == "ignore":
            missing = f"those of the data {images.source} are not used; add --data-labels use if they are the models'"
        raise UserError(
            f"The technique {config.technique} begins with images that both models get right, so it needs labels, and "
            f"{missing}, or another technique ({', '.join(others)})."
        )
    if needs_of(config).source:
        family_of(config).supports(images.image_shape)
    if uses_gan(config):
        FAMILIES["gan"].supports(images.image_shape)
    elif max(images.image_shape[1:]) > LARGEST:
        raise UserError(
            f"The images are {'x'.join(map(str, images.image_shape))}, and may have {LARGEST} pixels a side at most; "
            "bring them to fewer with --resize N."
        )
    elif min(images.image_shape[1:]) < _SMALLEST_SIDE:
        advice = "and give a generator of that size" if config.generator.file is not None else "of at least that size"
        raise UserError(
            f"The images are {'x'.join(map(str, images.image_shape))}; the filters need {_SMALLEST_SIDE} pixels a side "
            f"at least, so add --resize N {advice}."
        )


def check_jury(config: CompareConfig, missing: str) -> None:
    """See that there is a jury where the settings name the filter that asks it.

    Args:
        config: all settings.
        missing: why there is none, as part of a sentence; empty where there is one.

    Raises:
        UserError: there is none.
    """
    if missing and config.filters.names is not None and "jury" in config.filters.names:
        raise UserError(
            f"There is no jury that the filter jury could ask ({missing}); give more images, or labels, or leave it "
            "out of --filters."
        )


def check_seeds(config: CompareConfig, real: RealImages, source: str) -> None:
    """See that there is a real image that the technique can begin with, where it begins with any.

    Raises:
        UserError: there is none.
    """
    kind = technique_class(config.technique)
    needs = kind.needs(config.search)
    if (needs.encoder or not needs.source) and len(kind.seeds(real)) == 0:
        raise UserError(
            f"The technique {config.technique} begins with {kind.seed_requirement}, and {source} has none; check the "
            "pre-processing of both models (diffgen inspect), or use another technique."
        )
