"""The validity filters by name."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from diffgen.errors import UserError
from diffgen.filters.base import Filter
from diffgen.parts import Registry

FILTERS: Registry[Filter] = Registry(Filter)  # type: ignore[type-abstract]


def filters_named(names: Sequence[str]) -> dict[str, Filter | type[Filter]]:
    """The filters of these names: classes that make one, and objects that are one.

    Raises:
        UserError: there is none of that name, it was not given or cannot be imported, or it has the name of another.
    """
    parts: dict[str, Filter | type[Filter]] = {}
    for name in names:
        part = FILTERS.find(name)
        if not (isinstance(part, Filter) or (inspect.isclass(part) and issubclass(part, Filter))):
            raise UserError(
                f"The filter {name} is neither a class derived from diffgen.Filter nor an object of one; derive it "
                "from that class."
            )
        parts[name] = part
    called = [each.name for each in parts.values()]
    for name, part in parts.items():
        # scores and counts are kept by these names
        own = part.name in FILTERS.own() and name != part.name
        if own or called.count(part.name) > 1:
            whose = "one of diffgen's own" if own else "another one"
            raise UserError(f"The filter {name} is called {part.name!r}, and so is {whose}; call it otherwise.")
    return parts
