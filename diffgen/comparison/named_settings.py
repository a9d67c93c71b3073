"""Settings from a Python program by name, objects of its own among them, and those that a run was made with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from diffgen.comparison.image_source import settled_generator
from diffgen.config import CompareConfig, SearchConfig, applied, from_dict, given, replace
from diffgen.config.layers import Layer, filter_chain, merged
from diffgen.config.named import layer
from diffgen.errors import UserError
from diffgen.parts import Extensions, name_of, names_of
from diffgen.runs.folder import RunFolder
from diffgen.techniques import preset, technique_class


def stored_settings(folder: RunFolder) -> CompareConfig:
    """The settings of a run; checked like those that a user gives, for the folder may come from a stranger.

    Raises:
        UserError: config.toml is missing or damaged, or holds a value that cannot be.
    """
    folder.check_description()
    values: dict[str, Any] = folder.config()
    try:
        config: CompareConfig = from_dict(CompareConfig, values)
    except UserError as error:
        raise UserError(
            f"The settings {folder.path / 'config.toml'} cannot be used ({str(error).rstrip('.')}); the run folder is "
            "damaged."
        ) from error
    return config


@contextmanager
def settled(
    config: CompareConfig,
    named: Mapping[str, Any],
    *,
    technique: Any = None,
    technique_settings: Any = None,
    generator: Any = None,
    filters: str | Sequence[Any] | None = None,
) -> Iterator[CompareConfig]:
    """The settings with those put over them that were given by name; while the block runs, objects are known.

    A technique or a preset that is named, and is not that of ``config``, brings its own search, GAN and selector, and
    filters where these are left as they are. That of ``config`` itself brings what ``config`` was not given.

    Args:
        config: below everything else.
        named: settings by the names of their options; see :class:`diffgen.config.named.NamedSettings`.
        technique, generator, filters: names or objects; see :func:`diffgen.compare`.
        technique_settings: an object of the technique's own ``Settings``.

    Raises:
        UserError: a name that is not known, a value that cannot be, or a ``config`` that is none.
    """
    check_config(config, CompareConfig)
    own = Extensions.among(technique, generator, filters)
    with own.in_use():
        said = merged(_parts(technique, generator, filters), layer(named))
        name = said.get("technique", config.technique)
        recipe = said.get("preset", config.preset if name == config.technique else "default")
        chosen = preset(name, recipe)
        if (name, recipe) == (config.technique, config.preset):
            known = given(config)
            config = applied(chosen.under(CompareConfig(), merged(known, said)), known)
        else:
            config = replace(chosen.under(config, said), technique=name, preset=recipe)
        config = applied(config, said)
        if technique_settings is not None:
            config = replace(config, search=_with_settings(config, technique_settings))
        yield settled_generator(config)


def check_config(config: object, kind: type[Any]) -> None:
    """See that settings are an object of their class, or raise UserError."""
    if not isinstance(config, kind):
        raise UserError(
            f"config= is a {type(config).__name__}, but it takes a diffgen.{kind.__name__}; give that, or name single "
            "settings as keywords."
        )


def _parts(technique: Any, generator: Any, filters: str | Sequence[Any] | None) -> Layer:
    made: Layer = {}
    if technique is not None:
        made["technique"] = name_of(technique)
    if generator is not None:
        is_file = isinstance(generator, str | Path)
        made |= {"generator": {"file": generator}} if is_file else {"source": {"family": name_of(generator)}}
    if filters is not None:
        chain = filter_chain(filters) if isinstance(filters, str) else {"names": names_of(filters)}
        made["filters"] = chain
    return made


def _with_settings(config: CompareConfig, settings: Any) -> SearchConfig:
    """The search with the settings of its technique. UserError if they are not of that technique's class."""
    own = technique_class(config.technique).Settings
    if own is None or not isinstance(settings, own):
        has = "has no settings of its own; leave it out" if own is None else f"takes an object of {name_of(own)}"
        raise UserError(
            f"technique_settings= is of {name_of(type(settings))}, but the technique {config.technique} {has}."
        )
    return config.search.with_technique(settings)
