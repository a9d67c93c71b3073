"""The techniques by name."""

from __future__ import annotations

import difflib

from diffgen.config import SearchConfig
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
    "diffgan": diffgan.PRESETS,
    **{name: {"default": SearchConfig()} for name in _TECHNIQUES if name != "diffgan"},
}


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
