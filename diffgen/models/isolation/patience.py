"""How long a child may take: its own limit, and less once somebody has asked diffgen to stop."""

from __future__ import annotations

import time

GRACE = 5.0
_TIMES_THE_LONGEST = 3.0

_hurried_at: float | None = None


def hurry() -> None:
    """Somebody asked diffgen to stop: a batch that is being computed gets a short grace from now on."""
    global _hurried_at
    _hurried_at = time.monotonic()


def take_time() -> None:
    """As before :func:`hurry`."""
    global _hurried_at
    _hurried_at = None


def hurried_until(longest: float) -> float | None:
    """When (``time.monotonic``) a running batch is given up because of :func:`hurry`; None for not at all.

    Args:
        longest: seconds that a batch of this model has taken so far; a slow model gets more than :data:`GRACE`.
    """
    return None if _hurried_at is None else _hurried_at + max(GRACE, _TIMES_THE_LONGEST * longest)
