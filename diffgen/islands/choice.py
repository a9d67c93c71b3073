"""Whether a comparison searches on islands."""

from __future__ import annotations

from collections.abc import Callable

from diffgen.comparison.prepared import Prepared, Reopening
from diffgen.comparison.technique_run import SearchOutcome
from diffgen.config import CompareConfig


def search_of(config: CompareConfig, reopening: Reopening) -> Callable[[Prepared], SearchOutcome] | None:
    """What searches on islands where the settings say so; None: the search runs in this process.

    Args:
        config: all settings.
        reopening: what workers need besides the run folder.
    """
    if not config.islands.used:
        return None

    def search(prepared: Prepared) -> SearchOutcome:
        from diffgen.islands.driver import search_on_islands

        return search_on_islands(prepared, reopening=reopening)

    return search
