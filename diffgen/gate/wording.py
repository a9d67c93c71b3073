"""Numbers of a check as text; the same in the command line, the report and the messages of a test."""

from __future__ import annotations

from diffgen import wording


def percent(share: float) -> str:
    """``0.53%``; as :func:`diffgen.wording.percent`, with the digits that limits are given with."""
    return wording.percent(share, 2)


def points(share: float) -> str:
    """``0.53 points``, of a difference of two shares; one that is no 0 is never written as 0."""
    value = round(share * 100, 9) or 0.0  # a sum of floats may miss 0 in its last digits; no minus before 0
    if 0 < abs(value) < 0.01:
        return "<0.01 points" if value > 0 else "above -0.01 points"
    return f"{value:.2f} points"
