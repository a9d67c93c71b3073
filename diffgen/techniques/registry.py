"""The techniques by name, and their presets."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from diffgen.errors import UserError, did_you_mean
from diffgen.parts import Registry
from diffgen.techniques.base import Preset, Technique, TechniqueContext

TECHNIQUES: Registry[Technique] = Registry(Technique)  # type: ignore[type-abstract]


def preset(technique: str, name: str) -> Preset:
    """A technique's preset: settings of its search and its GAN, and the source that it draws from unless one is named.

    Raises:
        UserError: unknown technique or preset.
    """
    presets = technique_class(technique).presets
    if name not in presets:
        raise UserError(
            f"There is no preset of {technique} called {name!r}; {did_you_mean(name, tuple(presets), quoted=True)}"
        )
    return presets[name]


def technique_class(technique: str) -> type[Technique]:
    """The technique of that name; what it needs and begins with can be asked before one is made.

    Raises:
        UserError: unknown technique, or what goes by that name is none.
    """
    given = TECHNIQUES.find(technique)
    kind = given.func if isinstance(given, functools.partial) else given
    if not (inspect.isclass(kind) and issubclass(kind, Technique)):
        raise UserError(
            f"The technique {technique} is neither a class derived from diffgen.Technique nor a functools.partial of "
            "one; derive it from that class."
        )
    return kind


def make(technique: str, context: TechniqueContext) -> Technique:
    """The technique of that name, ready to run. UserError for an unknown technique."""
    technique_class(technique)
    given: Any = TECHNIQUES.find(technique)
    made: Technique = given(context)
    return made
