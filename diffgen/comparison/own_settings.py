"""Checks and writes out the settings that single techniques and families of sources bring with them."""

from __future__ import annotations

from diffgen.config import CheckConfig, CompareConfig, replace
from diffgen.config.schema import every_setting
from diffgen.config.tables import check_tables, settings_among, table_name, with_table
from diffgen.sources.operators import is_grey, usual_operators
from diffgen.sources.registry import family_of
from diffgen.sources.registry import settings_classes as settings_of_sources
from diffgen.sources.seeds import SeedsSettings
from diffgen.techniques import check_settings_tables, with_settings_written_out
from diffgen.techniques.registry import settings_classes as settings_of_techniques
from diffgen.types import UInt8Array


def path_settings() -> frozenset[str]:
    """The full names of all settings of a comparison or check that name a file or a folder."""
    kinds = (CheckConfig, *settings_of_techniques(), *settings_of_sources())
    return frozenset(each.key for kind in kinds for each in every_setting(kind) if each.is_path)


def check_own_settings(config: CompareConfig, *, settled: bool = True) -> None:
    """See that the tables of techniques and families can be, also of those that are not in use.

    Args:
        config: holds them.
        settled: whether the technique is the one that runs; else tables that none of our own has are passed over.

    Raises:
        UserError: a table, a key or a value that cannot be.
    """
    check_settings_tables(config.search, config.technique if settled else None)
    check_tables(config.source.families, settings_of_sources(), prefix="source", all_known=True)


def with_named_operators(config: CompareConfig, images: UInt8Array) -> CompareConfig:
    """The same with the operators of the source ``seeds`` by their names, where its settings are written out.

    Genes are numbers of that list, which other versions may have otherwise.

    Args:
        config: see :func:`with_own_settings`.
        images: uint8 (N, C, H, W), the real ones.
    """
    families = config.source.families
    if table_name(SeedsSettings) not in families:
        return config
    own = settings_among(SeedsSettings, families)
    if own.operators is not None:
        return config
    named = replace(own, operators=usual_operators(images.shape[1], grey=is_grey(images)))
    return replace(config, source=replace(config.source, families=with_table(families, named)))


def with_own_settings(config: CompareConfig) -> CompareConfig:
    """The same with every setting of the technique and the family in use, also those that nobody named.

    Raises:
        UserError: see :func:`check_own_settings`.
    """
    check_own_settings(config)
    family, families = family_of(config), config.source.families
    if family.Settings is not None:
        families = with_table(families, settings_among(family.Settings, families))
    return replace(
        config,
        search=with_settings_written_out(config.search, config.technique),
        source=replace(config.source, families=families),
    )
