"""Matches what the parts of a comparison need with what is there, and checks their settings, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from diffgen.config import CheckConfig, CompareConfig, replace, roles
from diffgen.config.budget import SMALL
from diffgen.config.schema import every_setting
from diffgen.data.resize import LARGEST
from diffgen.errors import UserError
from diffgen.filters import FILTERS, filters_named
from diffgen.models import BlackBox
from diffgen.parts import NOTHING, Need, Needs
from diffgen.search.staging import FEWEST
from diffgen.sources.base import Family
from diffgen.sources.registry import SOURCES, family_named, family_of
from diffgen.tasks.classification import listed
from diffgen.techniques import TECHNIQUES, RealImages, technique_class
from diffgen.types import ImageSet

_DEFAULT: tuple[str, ...] = ("neighbors", "jury", "ssim")  # cheapest first: what one rejects no other is asked about
_WITHOUT_JURY = ("reconstruction", "ssim")
_MILD = ("neighbors", "ssim")  # without a jury, of real images that operators change, and of scenes: nothing is trained
_WORTH_A_JURY = 1_000  # queries: of two models of 25 ms, which take as long as a jury learns
_JUDGE = "discriminator"
_TRAINED_JUDGE = "gan"  # the family whose discriminator is trained where something asks for one and nothing has it
_SMALLEST_SIDE = 8  # of images that the domain encoder and SSIM can look at
# what a technique does with what it needs of a source
_DOES: dict[Need, str] = {
    "encoder": "turns real images into genes",
    "between": "draws what lies between two real images",
    "operators": "changes the real images themselves",
    "discriminator": "asks a discriminator how real its pictures are",
}


def needs_of(config: CompareConfig) -> Needs:
    """What the technique of these settings needs. UserError if there is no such technique."""
    return technique_class(config.technique).needs(config.search)


def source_of(config: CompareConfig) -> Family | None:
    """The family that the pictures are drawn from, or that the user brings a discriminator with; None: neither."""
    named = family_of(config)
    return named if named is not None and ("source" in needs_of(config) or named.brought) else None


def unused_source(config: CompareConfig) -> str:
    """A sentence about a source that the settings name and the technique draws nothing from; empty: there is none."""
    if config.source.family is None or source_of(config) is not None:
        return ""
    return (
        f"The technique {config.technique} makes its pictures from the real images itself and draws none from the "
        f"source {config.source.family}; leave --source out, or use a technique that draws from it."
    )


def without_unused_source(config: CompareConfig) -> CompareConfig:
    """The same without a source that the technique draws nothing from, for settings that several techniques share."""
    return replace(config, source=replace(config.source, family=None)) if unused_source(config) else config


def judge_of(config: CompareConfig) -> Family | None:
    """The family whose discriminator technique or filters ask; None where neither asks for one, or there is none."""
    if _JUDGE not in needs_of(config) and not _filters_ask_a_judge(config):
        return None
    drawing = source_of(config)
    if drawing is not None and (drawing.brought or _JUDGE in drawing.gives(config)):
        return drawing if _JUDGE in drawing.gives(config) else None
    return family_named(_TRAINED_JUDGE)


def _filters_ask_a_judge(config: CompareConfig) -> bool:
    if config.filters.names is None:
        # one that was given, or a GAN that is there already, is there to judge
        return config.generator.discriminator is not None or config.gan_file is not None
    return any(_JUDGE in each.needs for each in filters_named(config.filters.names).values())


def families_in_use(config: CompareConfig) -> tuple[Family, ...]:
    """The families that draw the pictures and give the discriminator, each once."""
    return tuple({each.name: each for each in (source_of(config), judge_of(config)) if each is not None}.values())


def uses_auto_encoder(config: CompareConfig, *, jury: bool) -> bool:
    """Whether source or filters ask for the auto-encoder of the real images."""
    drawing = source_of(config)
    needs = [each.needs for each in filters_named(filter_names(config, jury=jury)).values()]
    return "auto_encoder" in (NOTHING if drawing is None else drawing.needs(config)).union(*needs)


def over_before_a_jury(config: CompareConfig, image_shape: tuple[int, int, int]) -> bool:
    """Whether a search of large pictures is so short that a jury would learn longer, and nothing else asks for one.

    What pictures show is then known from the real images, which operators change mildly. It hangs on no clock and on no
    cache, so that a run stays repeatable (docs/decisions/068-answers-in-stages.md).
    """
    drawing, queries = source_of(config), config.budget.queries
    mild = drawing is not None and "operators" in drawing.gives(config)
    asked = config.select or "jury" in (config.filters.names or ())
    return mild and not asked and queries is not None and queries < _WORTH_A_JURY and prod(image_shape) > SMALL


def filter_names(config: CompareConfig, *, jury: bool = True) -> tuple[str, ...]:
    """The filters: those that the settings name; else nearness to real images, the jury and SSIM.

    Of generated digits these keep most of what people accept, and reject nearly all of what they do not; nearness and
    jury alone would let through areas of one grey and pictures of another kind (benchmarks/results/human-labelled.md).
    Without a jury, of what a network draws: how well an auto-encoder draws it again, and SSIM. A discriminator is asked
    where the user brought one, or a GAN that the search does without; without a jury, also that of the source.
    """
    if config.filters.names is not None:
        return config.filters.names
    if config.task.name not in (None, "classification"):
        return _MILD
    drawing, needed = source_of(config), _JUDGE in needs_of(config)
    given = drawing is not None and _JUDGE in drawing.gives(config)
    if jury:
        spare = config.gan_file is not None and not given and not needed
        asked, rest = spare or config.generator.discriminator is not None, _DEFAULT
    else:
        mild = drawing is not None and "operators" in drawing.gives(config)
        asked, rest = given or judge_of(config) is not None, _MILD if mild else _WITHOUT_JURY
    return (_JUDGE, *rest) if asked else rest


def part_lines() -> dict[str, dict[str, str]]:
    """What stands behind the names that each option of parts takes, in a line: option -> name -> line."""
    return {"--technique": TECHNIQUES.lines(), "--source": SOURCES.lines(), "--filters": FILTERS.lines()}


def settings_of_parts() -> tuple[type[Any], ...]:
    """The classes of settings of diffgen's own techniques, sources and filters."""
    return (*TECHNIQUES.settings_classes(), *SOURCES.settings_classes(), *FILTERS.settings_classes())


def path_settings() -> frozenset[str]:
    """The full names of all settings of a comparison or check that name a file or a folder."""
    kinds = (CheckConfig, *settings_of_parts())
    return frozenset(each.key for kind in kinds for each in every_setting(kind) if each.is_path)


def check_own_settings(config: CompareConfig, *, settled: bool = True) -> None:
    """See that the tables of parts can be, also of those that are not in use.

    Args:
        settled: whether the parts are those that run; else tables that none of diffgen's own has are passed over.

    Raises:
        UserError: a table, a key or a value that cannot be.
    """
    if not settled:
        for each in (TECHNIQUES, SOURCES, FILTERS):
            each.check_tables(config, None)
        return
    drawing = family_of(config)
    TECHNIQUES.check_tables(config, [technique_class(config.technique)])
    SOURCES.check_tables(config, [] if drawing is None else [drawing])
    FILTERS.check_tables(config, list(filters_named(config.filters.names or ()).values()))


def with_own_settings(config: CompareConfig) -> CompareConfig:
    """The same with every setting of the parts in use and of diffgen's own filters, also those that nobody named.

    Raises:
        UserError: see :func:`check_own_settings`.
    """
    check_own_settings(config)
    drawing = family_of(config)
    config = TECHNIQUES.written_out(config, [technique_class(config.technique)])
    config = SOURCES.written_out(config, [] if drawing is None else [drawing])
    filters = filters_named(config.filters.names or ()).values()
    return FILTERS.written_out(config, [*FILTERS.own().values(), *filters])


def check_settings(config: CompareConfig) -> None:
    """See that parts have what they need, and that what settings name is used, or raise UserError."""
    check_own_settings(config)
    needs, drawing, judge = needs_of(config), source_of(config), judge_of(config)
    _check_filters(config)
    if _JUDGE in needs and judge is None and drawing is not None:
        raise _lacks(config, drawing, _JUDGE, ())
    if drawing is not None and "source" not in needs and judge is None:
        raise UserError(
            f"The technique {config.technique} makes its pictures from the real images itself and asks no generator; "
            "leave it out, or give a discriminator with it for the filter."
        )
    for each in families_in_use(config):
        each.check(config)
    if drawing is not None and "source" in needs:
        _check_source(config, needs, drawing)
    has_gan = _TRAINED_JUDGE in [each.name for each in families_in_use(config)]
    if config.gan_file is not None and not has_gan:
        raise UserError(
            f"Neither the technique {config.technique} nor the filters ask for a GAN; leave --gan out, or add the "
            "filter discriminator."
        )
    if config.tuning.trials and (config.gan_file is not None or not has_gan):
        raise UserError(
            "This comparison trains no GAN, so there is nothing to tune; leave --tune out, or add --preset diffgan or "
            "--source gan."
        )
    if config.oracle is not None and not config.select:
        raise UserError(
            "--oracle labels what the selector learns from, and none is asked for; add --select, or leave it out."
        )
    if config.search.validity == "constraint" and not technique_class(config.technique).asks_filters:
        able = [name for name, each in sorted(TECHNIQUES.own().items()) if each.asks_filters]
        raise UserError(
            f"The technique {config.technique} does not ask the filters in the search, but --validity is "
            f"{config.search.validity}; leave it out, or use --technique {' or '.join(able)}."
        )


def _check_filters(config: CompareConfig) -> None:
    answers, asked = config.filters.learned_from, False
    for name, each in filters_named(config.filters.names or ()).items():
        asked = asked or "answers" in each.needs
        if "answers" in each.needs and answers is None:
            raise UserError(
                f"The filter {name} has no answers to learn from; {each.hints['answers']}, or leave it out of "
                "--filters."
            )
    if answers is not None and not asked:
        raise UserError(
            f"No filter learns from the answers {answers}; add learned to --filters, or leave --learned-from out."
        )


def _check_source(config: CompareConfig, needs: Needs, drawing: Family) -> None:
    wanted: Needs = needs & frozenset({"encoder", "between", "operators"})
    gives = drawing.gives(config)
    for need in sorted(wanted - gives):
        own = (each() for each in SOURCES.own().values())
        raise _lacks(config, drawing, need, sorted(each.name for each in own if wanted <= each.gives(CompareConfig())))


def _lacks(config: CompareConfig, drawing: Family, need: Need, able: Sequence[str]) -> UserError:
    """The error about what a source does not give."""
    hints = [each.hints[need] for each in (drawing, technique_class(config.technique)) if need in each.hints]
    ways = ([f"use --source {' or '.join(able)}"] if able else []) + hints
    return UserError(
        f"The technique {config.technique} {_DOES[need]}, and the source {drawing.name} has nothing for that; "
        f"{', or '.join(ways or ['use another technique'])}."
    )


def asks_filters_in_search(config: CompareConfig) -> bool:
    """Whether the search itself asks the validity filters about its triggers."""
    able = technique_class(config.technique).asks_filters
    return able and config.search.validity != "post" and bool(filter_names(config))


def check_models(config: CompareConfig, count: int) -> None:
    """See that the technique can work with so many models, or raise UserError."""
    needed = technique_class(config.technique).models
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
    """See that a model that is only a table of answers is asked about no new image, or raise UserError."""
    tables = [role for role, model in zip(roles(models), models, strict=True) if model.is_table]
    if tables and not technique_class(config.technique).asks_known_images:
        one = len(tables) == 1
        raise UserError(
            f"{'Model' if one else 'Models'} {listed(tables)} {'is a table' if one else 'are tables'} of answers, and "
            f"the technique {config.technique} asks about new images, which no table lists; give the model itself, or "
            "take --technique as_is, which asks about the real images alone."
        )


def check_images(config: CompareConfig, images: ImageSet) -> None:
    """See that technique, sources and filters can work with the real images, or raise UserError."""
    if "labels" in needs_of(config) and images.labels is None:
        own = sorted(TECHNIQUES.own().items())
        others = [name for name, each in own if "labels" not in each.needs(config.search)]
        missing = f"the data {images.source} has none; give labelled images"
        if config.data_labels == "ignore":
            missing = f"those of the data {images.source} are not used; add --data-labels use if they are the models'"
        raise UserError(
            f"The technique {config.technique} begins with images that both models get right, so it needs labels, and "
            f"{missing}, or another technique ({', '.join(others)})."
        )
    for each in families_in_use(config):
        each.supports(images.image_shape)
        each.check_count(config, len(images))
    if max(images.image_shape[1:]) > LARGEST:
        raise UserError(
            f"The images are {'x'.join(map(str, images.image_shape))}, and may have {LARGEST} pixels a side at most; "
            "bring them to fewer with --resize N."
        )
    if min(images.image_shape[1:]) < _SMALLEST_SIDE:
        advice = "and give a generator of that size" if config.generator.file is not None else "of at least that size"
        raise UserError(
            f"The images are {'x'.join(map(str, images.image_shape))}; the filters need {_SMALLEST_SIDE} pixels a side "
            f"at least, so add --resize N {advice}."
        )


def check_jury(config: CompareConfig, missing: str) -> None:
    """See that there is a jury where the settings name a filter that asks it.

    Args:
        missing: why there is none, as part of a sentence; empty where there is one.

    Raises:
        UserError: there is none.
    """
    if missing and config.jury is not None:
        raise UserError(
            f"The classifier {config.jury} cannot be the jury ({missing}); give another one, or leave --jury out."
        )
    asking = [name for name, each in filters_named(config.filters.names or ()).items() if "jury" in each.needs]
    if missing and asking:
        raise UserError(
            f"There is no jury that the filter {asking[0]} could ask ({missing}); give more images, or labels, or "
            "leave it out of --filters."
        )


def check_seeds(config: CompareConfig, real: RealImages, source: str) -> None:
    """See that the technique finds a real image to begin with, where it needs one, or raise UserError."""
    kind = technique_class(config.technique)
    needs = kind.needs(config.search)
    if ("encoder" in needs or "source" not in needs) and len(kind.seeds(real)) == 0:
        raise UserError(
            f"The technique {config.technique} begins with {kind.seed_requirement}, and {source} has none; check the "
            "pre-processing of both models (diffgen inspect), or use another technique."
        )
