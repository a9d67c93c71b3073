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
        found = next((each for each in extensions.in_use().filters if extensions.name_of(each) == name), None)
        if found is None:
            raise extensions.missing_object("filter", name)
    else:
        found = extensions.load("filter", name)
    make: Any = found
    made: Filter = make() if inspect.isclass(found) or inspect.isroutine(found) else make
    lacking = [part for part in _PARTS if not hasattr(made, part)]
    if lacking:
        raise UserError(f"The filter {name} has no {lacking[0]}; see diffgen.Filter for what a filter must have.")
    return made
