"""Whether workers on other machines compute with the same things as the process that started them."""

from __future__ import annotations

from collections.abc import Mapping

import diffgen
from diffgen.comparison.machine import versions


def made_of() -> dict[str, str]:
    """What must be the same everywhere: the versions of everything that can change a run's outcome."""
    return {"diffgen": diffgen.__version__, **versions()}


def differing(own: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """What a worker has otherwise than the process that started it, as parts of a sentence."""
    return [
        f"{name} {theirs.get(name, 'missing')} instead of {text}"
        for name, text in own.items()
        if theirs.get(name) != text
    ]
