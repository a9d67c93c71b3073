"""The techniques by name: our own, those of installed packages, and one that was given as an object."""

from __future__ import annotations

import difflib
import functools
import inspect
from typing import Any

from diffgen import extensions
from diffgen.config import GanConfig, SearchConfig, replace
from diffgen.config.search import OWN
from diffgen.config.sources import SourceFamily
from diffgen.config.tables import check_tables, with_table
from diffgen.errors import UserError
from diffgen.techniques import (
    argus,
    as_is,
    dflare,
    diffchaser,
    diffgan,
    diverget,
    drfuzz,
    giftbench,
    latte,
    random_latent,
    real_data,
    sinvad,
)
from diffgen.techniques.base import Preset, Technique, TechniqueContext

TECHNIQUES: dict[str, type[Technique]] = {
    "diffgan": diffgan.DiffGan,
    "random_latent": random_latent.RandomLatent,
    "real_data": real_data.RealData,
    "drfuzz": drfuzz.DrFuzz,
    "dflare": dflare.DFlare,
    "diffchaser": diffchaser.DiffChaser,
    "diverget": diverget.DiverGet,
    "as_is": as_is.AsIs,
    "seeds": diffgan.Seeds,
    "argus": argus.Argus,
    "latte": latte.Latte,
    "sinvad": sinvad.Sinvad,
    "giftbench": giftbench.Giftbench,
}


def technique_names() -> tuple[str, ...]:
    """The names that ``--technique`` takes, sorted: our own, and those of installed packages."""
    return tuple(sorted({*TECHNIQUES, *extensions.offered("technique")}))


def preset(technique: str, name: str) -> SearchConfig:
    """The settings of the search of a technique's preset.

    Raises:
        UserError: unknown technique or preset.
    """
    return _preset(technique, name).search


def preset_gan(technique: str, name: str, gan: GanConfig) -> GanConfig:
    """The settings of a GAN with those that a technique's preset brings.

    Raises:
        UserError: unknown technique or preset.
    """
    return replace(gan, **_preset(technique, name).gan)


def preset_source(technique: str, name: str) -> SourceFamily:
    """The family of sources that a technique's preset draws from, unless another one is named.

    Raises:
        UserError: unknown technique or preset.
    """
    return _preset(technique, name).source


def _preset(technique: str, name: str) -> Preset:
    presets = technique_class(technique).presets
    _check(f"preset of {technique}", name, tuple(presets))
    return presets[name]


def technique_class(technique: str) -> type[Technique]:
    """The technique of that name; what it needs and begins with can be asked before one is made.

    Raises:
        UserError: unknown technique, or what goes by that name is none.
    """
    found = _found(technique)
    kind = found.func if isinstance(found, functools.partial) else found
    if not (inspect.isclass(kind) and issubclass(kind, Technique)):
        raise UserError(
            f"The technique {technique} is neither a class derived from diffgen.Technique nor a functools.partial of "
            "one; derive it from that class."
        )
    return kind


def settings_classes() -> tuple[type[Any], ...]:
    """The settings classes of our own techniques, as far as they have one."""
    return tuple(each.Settings for each in TECHNIQUES.values() if each.Settings is not None)


def check_settings_tables(search: SearchConfig, technique: str | None = None) -> None:
    """See that the tables of single techniques can be, those of techniques that are not in use too.

    Args:
        search: holds them.
        technique: that is in use; None: not known yet, and tables that are not our own techniques' are passed over.

    Raises:
        UserError: a table, a key or a value that cannot be.
    """
    tables = {name: values for name, values in search.techniques.items() if name != OWN}
    if technique is None:
        check_tables(tables, settings_classes(), prefix="search", all_known=False)
        return
    kind = technique_class(technique)
    foreign = (kind.Settings,) if hasattr(kind.Settings, "__table__") else ()
    check_tables(tables, (*settings_classes(), *foreign), prefix="search", all_known=True)
    kind.settings_in(search)


def with_settings_written_out(search: SearchConfig, technique: str) -> SearchConfig:
    """The same with every setting of the technique's own, also those that nobody named.

    Raises:
        UserError: see :func:`check_settings_tables`.
    """
    check_settings_tables(search, technique)
    kind = technique_class(technique)
    if not hasattr(kind.Settings, "__table__"):
        return search
    return replace(search, techniques=with_table(search.techniques, kind.settings_in(search)))


def make(technique: str, context: TechniqueContext) -> Technique:
    """The technique of that name, ready to run.

    Raises:
        UserError: unknown technique.
    """
    technique_class(technique)
    made: Technique = _found(technique)(context)
    return made


def _found(technique: str) -> Any:
    """The class that a name stands for, or a partial of it: ours, an object that was given, or a package's."""
    if extensions.is_object(technique):
        given = extensions.in_use().technique
        if given is None or extensions.name_of(given) != technique:
            raise extensions.missing_object("technique", technique)
        return given
    if technique in TECHNIQUES:  # without a look at what all installed packages offer
        return TECHNIQUES[technique]
    _check("technique", technique, technique_names())
    return extensions.load("technique", technique)


def _check(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}."
        raise UserError(f"There is no {what} called {name!r}; {hint}")
