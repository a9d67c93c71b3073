"""Settings as nested plain values and back, as files keep them."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from diffgen.config.budget import Budget
from diffgen.config.schema import SettingError, describe, fields_of, list_class, table_class, unknown


def to_dict(config: Any) -> dict[str, Any]:
    """A settings object as nested plain values, without those that are None (TOML has no null)."""

    def plain(value: Any) -> Any:
        if isinstance(value, Budget):
            return str(value)
        if hasattr(value, "__table__"):
            return to_dict(value)
        return [plain(each) for each in value] if isinstance(value, tuple) else value

    values = {f.name: plain(getattr(config, f.name)) for f in fields(config)}
    return {name: value for name, value in values.items() if value is not None}


def from_dict(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """The settings ``kind`` from what :func:`to_dict` gave; what is missing keeps its default of None or more.

    Raises:
        SettingError: a key that ``kind`` does not have, or a value that it cannot have.
    """
    return _made(kind, values, stored=True)


def from_layer(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """The settings ``kind`` with its defaults, and these values put over them.

    Raises:
        SettingError: a key that ``kind`` does not have, or a value that it cannot have.
    """
    return _made(kind, values, stored=False)


def _made(kind: type[Any], values: Mapping[str, Any], *, stored: bool) -> Any:
    known = fields_of(kind)
    prefix = f"{kind.__table__}." if kind.__table__ else ""
    for name in values:
        if name not in known:
            raise unknown(f"{prefix}{name}", [f"{prefix}{each}" for each in known])
    made: dict[str, Any] = {}
    for name in known:
        table, rows = table_class(kind, name), list_class(kind, name)
        if name not in values:
            # to_dict leaves out exactly the values that were None
            if stored and table is None and rows is None and describe(kind, name).optional:
                made[name] = None
            continue
        value = values[name]
        if table is not None and not isinstance(value, table):
            made[name] = _made(table, _table(name, f"[{prefix}{name}]", value), stored=stored)
        elif rows is not None and isinstance(value, list | tuple):
            made[name] = tuple(_made(rows, _table(name, f"[[{name}]]", each), stored=stored) for each in value)
        else:
            made[name] = value
    return kind(**made)


def _table(name: str, header: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        problem = f"is {reprlib.repr(value)}, but it has settings of its own; write them in a table {header}."
        raise SettingError(name, problem)
    return value
