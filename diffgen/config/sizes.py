"""How pictures are read: height and width as a setting (``224``, ``"192x256"``, ``[192, 256]``), and rules."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator

from diffgen.config.schema import Maybe

_TEXT = re.compile(r"\s*(\d{1,6})\s*(?:[xX]\s*(\d{1,6})\s*)?")


def _sides(value: Any) -> Any:
    """A side of a square as a number, other sizes as height and width; the reading of images checks the range."""
    if isinstance(value, str) and value not in ("none", "auto"):
        match = _TEXT.fullmatch(value)
        if match is None:
            raise ValueError(f"is {value!r}; give the side of a square such as 224, or height and width as 192x256.")
        value = tuple(int(side) for side in match.groups() if side)
        value = value[0] if len(value) == 1 else value
    if isinstance(value, list | tuple):
        value = tuple(value)
        if len(value) != 2 or not all(type(side) is int for side in value):
            raise ValueError(f"is {list(value)!r}; give the side of a square such as 224, or height and width.")
        return value[0] if value[0] == value[1] else value
    return value


Sides: TypeAlias = Annotated[Maybe[int | tuple[int, int]], BeforeValidator(_sides)]
FitRule: TypeAlias = Literal["crop", "pad", "stretch"]
ExifRule: TypeAlias = Literal["ignore", "apply"]
