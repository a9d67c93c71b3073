"""Numbers of a check as text; the same in the command line, the report and the messages of a test."""

from __future__ import annotations

from diffgen import wording


def percent(share: float) -> str:
    """``0.53%``; as :func:`diffgen.wording.percent`, with the digits that limits are given with."""
    return wording.percent(share, 2)


def points(share: float) -> str:
    """``0.53 points``, of a difference of two shares."""
    return f"{share * 100:.2f} points"
