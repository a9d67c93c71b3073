"""Configs as nested plain values and back, as files keep them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

from diffgen.config.budget import Budget
from diffgen.config.typed import Problem, checked
from diffgen.errors import UserError


def to_dict(config: Any) -> dict[str, Any]:
    """A config dataclass as nested plain values, without those that are None (TOML has no null)."""

    def plain(value: Any) -> Any:
        if isinstance(value, Budget):
            return str(value)
        if is_dataclass(value) and not isinstance(value, type):
            return to_dict(value)
        return list(value) if isinstance(value, tuple) else value

    values = {f.name: plain(getattr(config, f.name)) for f in fields(config)}
    return {name: value for name, value in values.items() if value is not None}


def from_dict(kind: type[Any], values: dict[str, Any]) -> Any:
    """The config dataclass ``kind`` from what :func:`to_dict` gave; what is missing keeps its default of None or more.

    Raises:
        UserError: a key that ``kind`` does not have, a value of another type, a number that is not finite, or a single
            value where ``kind`` has settings of its own.
    """
    hints = get_type_hints(kind)
    unknown = sorted(set(values) - set(hints))
    if unknown:
        raise UserError(f"The setting {unknown[0]!r} is not known; known ones here are {', '.join(sorted(hints))}.")
    made: dict[str, Any] = {}
    for f in fields(kind):
        if f.name not in values:
            # to_dict leaves out exactly the values that were None
            if f.default is not None and "None" in str(hints[f.name]):
                made[f.name] = None
            continue
        hint, value = hints[f.name], values[f.name]
        if is_dataclass(hint) and hint is not Budget:
            if not isinstance(value, dict):
                raise UserError(f"The setting {f.name!r} is {value!r}, but it has settings of its own; give a table.")
            made[f.name] = from_dict(hint, value)  # type: ignore[arg-type]
            continue
        try:
            made[f.name] = checked(f.name, value, hint)
        except Problem as problem:
            raise UserError(f"A setting cannot be used: {problem}") from problem
    return kind(**made)
