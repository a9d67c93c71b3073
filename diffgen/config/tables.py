"""Reads and writes settings whose class is declared beside what they are settings of, further up than ``config``.

Such a class is made by ``settings("search.drfuzz")``, and :class:`diffgen.config.SearchConfig` keeps its values as the
table ``drfuzz``: plain, and unchecked until the class is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from diffgen.config.plain import applied, to_dict
from diffgen.config.schema import NONE, fields_of

T = TypeVar("T")


def table_name(kind: Any) -> str:
    """The name of the table of a class of settings: ``drfuzz`` of ``[search.drfuzz]``."""
    return str(kind.__table__).rpartition(".")[2]


def settings_among(kind: type[T], tables: Mapping[str, Mapping[str, Any]]) -> T:
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
