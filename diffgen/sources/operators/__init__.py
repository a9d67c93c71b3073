"""Operators with explicit strengths: ways to change real images so that their labels stay."""

from diffgen.sources.operators import geometry, learned, levels, texture
from diffgen.sources.operators.base import (
    STRENGTHS,
    Axis,
    ImageRows,
    Operator,
    Range,
    Scene,
    Strengths,
    is_grey,
    step_of,
)

OPERATORS: dict[str, Operator] = {
    **geometry.OPERATORS,
    **levels.OPERATORS,
    **texture.OPERATORS,
    **learned.OPERATORS,
}


def usual_operators(channels: int, *, grey: bool = False) -> tuple[str, ...]:
    """Names of the operators that images of so many channels are changed by where none are named.

    Images whose channels are all alike (``grey``) are treated as those that have one.

    Those that ask an auto-encoder cost a good part of a search's time, and the auto-encoder; in as many queries a
    search finds hardly more with them (docs/decisions/033).
    """
    return tuple(
        name
        for name, each in OPERATORS.items()
        if each.fits(channels, grey=grey) and not each.learned and not (each.photographic and (grey or channels == 1))
    )


__all__ = [
    "OPERATORS",
    "STRENGTHS",
    "Axis",
    "ImageRows",
    "Operator",
    "Range",
    "Scene",
    "Strengths",
    "is_grey",
    "step_of",
    "usual_operators",
]
