"""Checks and writes out the settings that single parts bring with them."""

from __future__ import annotations

from typing import Any

from diffgen.config import CheckConfig, CompareConfig
from diffgen.config.schema import every_setting
from diffgen.filters import FILTERS, filters_named
from diffgen.sources.registry import SOURCES, family_of
from diffgen.techniques import TECHNIQUES, technique_class


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
        config: holds them.
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
