"""Where a comparison searches: in this process, or on islands."""

from __future__ import annotations

from diffgen.comparison.plan import Prepared
from diffgen.comparison.technique_run import SearchOutcome, run_search


def search(prepared: Prepared) -> SearchOutcome:
    """Search until the budget is used up, on islands where the settings say so.

    Raises:
        UserError, RunError: see :func:`diffgen.comparison.technique_run.run_search`.
    """
    if not prepared.config.islands.used:
        return run_search(prepared)
    from diffgen.islands.driver import search_on_islands

    return search_on_islands(prepared)
