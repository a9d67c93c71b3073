"""Settings as nested plain values and back, as files keep them, and plain values put over settings."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from diffgen.config.budget import Budget
from diffgen.config.schema import (
    NONE,
    SettingError,
    describe,
    fields_of,
    list_class,
    open_tables,
    replace,
    table_class,
    unknown,
)

T = TypeVar("T")


def to_dict(config: Any) -> dict[str, Any]:
    """A settings object as nested plain values, without those that are None (TOML has no null)."""

    def plain(value: Any) -> Any:
        if isinstance(value, Budget):
            return str(value)
        if hasattr(value, "__table__"):
            return to_dict(value)
        return [plain(each) for each in value] if isinstance(value, tuple) else value

    values = {f.name: plain(getattr(config, f.name)) for f in fields(config)}
    values |= values.pop(open_tables(type(config)) or "", {})
    return {name: value for name, value in values.items() if value is not None}


def from_dict(kind: type[T], values: Mapping[str, Any]) -> T:
    """The settings ``kind`` from what :func:`to_dict` gave; what is missing keeps its default of None or more.

    Raises:
        SettingError: a key that ``kind`` does not have, or a value that it cannot have.
    """
    return applied(kind(), _with_nones(kind, values))


def applied(config: T, values: Mapping[str, Any]) -> T:
    """A settings object with plain values put over it; tables go into the settings of that name.

    Raises:
        SettingError: a key that it does not have, or a value that it cannot have.
    """
    kind = type(config)
    prefix, others = _prefix(kind), open_tables(kind)
    known = [name for name in fields_of(kind) if name != others]
    made: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known and others is not None and isinstance(value, Mapping):
            tables = made.get(others, getattr(config, others))
            made[others] = {**tables, name: {**tables.get(name, {}), **value}}
            continue
        if name not in known:
            raise unknown(f"{prefix}{name}", [f"{prefix}{each}" for each in known])
        table, rows = table_class(kind, name), list_class(kind, name)
        if table is not None and not isinstance(value, table):
            made[name] = applied(getattr(config, name), _table(f"{prefix}{name}", value))
        elif rows is not None and isinstance(value, list | tuple):
            made[name] = tuple(
                each if isinstance(each, rows) else applied(rows(), _table(f"[{name}]", each)) for each in value
            )
        else:
            made[name] = value
    return replace(config, **made)


def _with_nones(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values in which everything that :func:`to_dict` left out is None again."""
    found = dict(values)
    for name in fields_of(kind):
        table, rows = table_class(kind, name), list_class(kind, name)
        value = values.get(name)
        if table is not None:
            if isinstance(value, Mapping):
                found[name] = _with_nones(table, value)
        elif rows is not None:
            if isinstance(value, list):
                found[name] = [_with_nones(rows, each) if isinstance(each, Mapping) else each for each in value]
        elif name not in values and describe(kind, name).optional:
            found[name] = None
    return found


def _prefix(kind: Any) -> str:
    return f"{kind.__table__}." if kind.__table__ else ""


def _table(header: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        name = header.strip("[]")
        problem = f"is {reprlib.repr(value)}, but it has settings of its own; write them in a table [{header}]."
        raise SettingError(name, problem)
    return value


Kind = TypeVar("Kind")


def table_name(kind: Any) -> str:
    """The name of the table of a class of settings: ``drfuzz`` of ``[search.drfuzz]``."""
    return str(kind.__table__).rpartition(".")[2]


def settings_among(kind: type[Kind], tables: Mapping[str, Mapping[str, Any]]) -> Kind:
    """The settings ``kind`` as tables give them, with its defaults for what they leave out.

    Raises:
        SettingError: a key that ``kind`` does not have, or a value that it cannot have.
    """
    return applied(kind(), tables.get(table_name(kind), {}))


def with_table(tables: Mapping[str, Mapping[str, Any]], settings: Any) -> dict[str, Any]:
    """Tables with one of these settings, every value written out: a default that changes later changes no old run."""
    kind, said = type(settings), to_dict(settings)
    names = [name for name in fields_of(kind) if name in said or _stands_for_none(kind, name)]
    return {**tables, table_name(kind): {name: said.get(name, NONE) for name in names}}


def _stands_for_none(kind: Any, name: str) -> bool:
    """Whether a setting reads the word as None; where it is a path, it is one of that name."""
    return getattr(applied(kind(), {name: NONE}), name) is None
