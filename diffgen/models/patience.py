"""Limits how long models may take: an isolated one has its own limit, and all ask for less once a search is to stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from diffgen.errors import StoppedBetweenBatches
from diffgen.events import StopToken

GRACE = 5.0
_TIMES_THE_LONGEST = 3.0

# of the search that this thread runs: another one in this process, stopped or not, is none of its business
_stop: ContextVar[StopToken | None] = ContextVar("stop", default=None)


@contextmanager
def impatient(stop: StopToken) -> Iterator[None]:
    """While the block runs, it ends in good order at a stop, for which a batch that is being computed gets short grace.

    A child that does not come back in time is ended, and :class:`diffgen.errors.Stopped` is raised.
    """
    before = _stop.set(stop)
    try:
        with stop.heeding():
            yield
    finally:
        _stop.reset(before)


def leave_the_rest() -> None:
    """Begin another batch, or not. StoppedBetweenBatches if the search that this thread works for was asked to stop."""
    stop = _stop.get()
    if stop is not None and stop.stopped:
        raise StoppedBetweenBatches("The search was stopped between two batches.")


def hurried_until(started: float, longest: float) -> float | None:
    """When (``time.monotonic``) a running batch is given up because of a stop; None for not at all.

    Args:
        started: when this batch was begun; what is asked about at once may be many batches, some begun after the stop.
        longest: seconds that a batch of this model has taken so far; a slow model gets more than :data:`GRACE`.
    """
    stop = _stop.get()
    if stop is None or stop.stopped_at is None:
        return None
    return max(started, stop.stopped_at) + max(GRACE, _TIMES_THE_LONGEST * longest)
