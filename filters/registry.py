"""Filters that are not our own: objects that were given, and those that installed packages offer."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from diffgen import extensions
from diffgen.config import FILTERS
from diffgen.errors import UserError
from diffgen.filters.base import Filter

_PARTS = ("name", "description", "threshold", "fit", "score")


def foreign_filters(names: Sequence[str]) -> dict[str, Filter]:
    """The filters among these names that are not ours, by name.

    Raises:
        UserError: an object was not given, a package cannot be imported, one is no filter, or has the name of another.
    """
    found = {name: _made(name) for name in names if name not in FILTERS}
    called = [each.name for each in found.values()]
    for name, each in found.items():
        # scores and counts are kept by these names
        if each.name in FILTERS or called.count(each.name) > 1:
            whose = "one of diffgen's own" if each.name in FILTERS else "another one"
            raise UserError(f"The filter {name} is called {each.name!r}, and so is {whose}; call it otherwise.")
    return found


def _made(name: str) -> Filter:
    found: Any = None
    if extensions.is_object(name):
        given = extensions.in_use().filters
        found = dict(zip(extensions.names_of(given), given, strict=True)).get(name)
        if found is None:
            raise extensions.missing_object("filter", name)
    else:
        found = extensions.load("filter", name)
    made: Any = found
    if inspect.isclass(found) or inspect.isroutine(found):
        if not _takes_nothing(found):
            raise UserError(
                f"The filter {name} takes arguments; give an object as diffgen.Filter describes it, or a class or "
                "function without arguments that makes one."
            )
        made = found()
    lacking = [part for part in _PARTS if not hasattr(made, part)]
    if lacking:
        raise UserError(f"The filter {name} has no {lacking[0]}; see diffgen.Filter for what a filter must have.")
    return made


def _takes_nothing(make: Any) -> bool:
    """Whether it can be called without arguments; where nobody can say, it is tried."""
    try:
        inspect.signature(make).bind()
    except TypeError:
        return False
    except ValueError:  # built in, without a signature
        return True
    return True
