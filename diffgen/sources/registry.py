"""The families of sources by name."""

from __future__ import annotations

from typing import Any

from diffgen import extensions
from diffgen.config import CompareConfig
from diffgen.sources.base import Family
from diffgen.sources.denoiser import DenoiserFamily
from diffgen.sources.file_family import FileFamily
from diffgen.sources.gan_family import GanFamily
from diffgen.sources.given_family import GivenFamily
from diffgen.sources.pipeline import DiffusersFamily
from diffgen.sources.seeds import SeedsFamily
from diffgen.sources.vae import VaeFamily
from diffgen.sources.vq import VqFamily

FAMILIES: dict[str, Family] = {
    each.name: each
    for each in (
        GanFamily(),
        FileFamily(),
        SeedsFamily(),
        VaeFamily(),
        VqFamily(),
        DenoiserFamily(),
        DiffusersFamily(),
    )
}
_GIVEN = GivenFamily()


def settings_classes() -> tuple[type[Any], ...]:
    """The settings classes of the families, as far as they have one."""
    return tuple(dict.fromkeys(each.Settings for each in FAMILIES.values() if each.Settings is not None))


def family_of(config: CompareConfig) -> Family:
    """The family that the settings ask for.

    A source that is not diffgen's own goes before all; where the settings name no family, it is that of the generator's
    file, or else the GAN: so it was when every run had one, and new runs name their family.
    """
    if extensions.in_use().generator is not None:
        return _GIVEN
    return FAMILIES[config.source.family or ("gan" if config.generator.file is None else "file")]
