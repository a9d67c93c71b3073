"""The families of sources by name."""

from __future__ import annotations

from typing import Any

from diffgen import extensions
from diffgen.config import CompareConfig
from diffgen.sources.base import Family
from diffgen.sources.file_family import FileFamily
from diffgen.sources.gan_family import GanFamily
from diffgen.sources.given_family import GivenFamily
from diffgen.sources.seeds import SeedsFamily

FAMILIES: dict[str, Family] = {each.name: each for each in (GanFamily(), FileFamily(), SeedsFamily())}
_GIVEN = GivenFamily()


def settings_classes() -> tuple[type[Any], ...]:
    """The settings classes of the families, as far as they have one."""
    return tuple(each.Settings for each in FAMILIES.values() if each.Settings is not None)


def family_of(config: CompareConfig) -> Family:
    """The family that the settings ask for.

    A source that is not diffgen's own goes before all; where the settings name no family, it is that of the generator's
    file, or else the GAN.
    """
    if extensions.in_use().generator is not None:
        return _GIVEN
    return FAMILIES[config.source.family or ("gan" if config.generator.file is None else "file")]
