"""The techniques by name."""

from __future__ import annotations

import difflib
from typing import Any

from diffgen.config import GanConfig, SearchConfig, replace
from diffgen.errors import UserError
from diffgen.techniques import dflare, diffgan, drfuzz, random_latent, real_data
from diffgen.techniques.base import Technique, TechniqueContext

_TECHNIQUES: dict[str, type[Technique]] = {
    "diffgan": diffgan.DiffGan,
    "random_latent": random_latent.RandomLatent,
    "real_data": real_data.RealData,
    "drfuzz": drfuzz.DrFuzz,
    "dflare": dflare.DFlare,
}
PRESETS: dict[str, dict[str, SearchConfig]] = {
    **{name: {"default": SearchConfig()} for name in _TECHNIQUES},
    "diffgan": diffgan.PRESETS,
}
_GAN_SETTINGS: dict[str, dict[str, dict[str, Any]]] = {"diffgan": diffgan.GAN_SETTINGS}


def technique_names() -> tuple[str, ...]:
    """The names that ``--technique`` takes, sorted."""
    return tuple(sorted(_TECHNIQUES))


def preset(technique: str, name: str) -> SearchConfig:
    """The settings of a technique's preset.

    Raises:
        UserError: unknown technique or preset.
    """
    _check("technique", technique, tuple(_TECHNIQUES))
    _check(f"preset of {technique}", name, tuple(PRESETS[technique]))
    return PRESETS[technique][name]


def preset_gan(technique: str, name: str, gan: GanConfig) -> GanConfig:
    """The settings of a GAN with those that a technique's preset brings.

    Raises:
        UserError: unknown technique or preset.
    """
    preset(technique, name)
    return replace(gan, **_GAN_SETTINGS.get(technique, {}).get(name, {}))


def technique_class(technique: str) -> type[Technique]:
    """The technique of that name; what it needs and begins with can be asked before one is made.

    Raises:
        UserError: unknown technique.
    """
    _check("technique", technique, tuple(_TECHNIQUES))
    return _TECHNIQUES[technique]


def make(technique: str, context: TechniqueContext) -> Technique:
    """The technique of that name, ready to run.

    Raises:
        UserError: unknown technique.
    """
    return technique_class(technique)(context)


def _check(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}."
        raise UserError(f"There is no {what} called {name!r}; {hint}")
