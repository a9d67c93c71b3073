"""How pictures came about: the real image that each began with, and the operators that were applied to it.

A recipe is kept as one line of ASCII text, so that a column of recipes needs no pickle:
``rotation(degrees=11.25); gaussian_noise(sigma=0.02)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from diffgen.errors import UserError
from diffgen.types import Int64Array

NO_SEED = -1
_NAME, _VALUE = r"[a-z][a-z0-9_]*", r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_STEP = re.compile(rf"(?P<operator>{_NAME})\((?P<strengths>[^()]*)\)")
_STRENGTH = re.compile(rf"(?P<name>{_NAME})=(?P<value>{_VALUE})")
_PAIR = f"{_NAME}={_VALUE}"
_WHOLE = rf"{_NAME}\((?:{_PAIR}(?:, {_PAIR})*)?\)"
_RECIPE = re.compile(rf"(?:{_WHOLE}(?:; {_WHOLE})*)?")


@dataclass(frozen=True)
class Step:
    """One operator with its strengths.

    Attributes:
        operator: lower-case name, such as "rotation".
        strengths: name and value of each, such as ("degrees", 11.25).
    """

    operator: str
    strengths: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        return f"{self.operator}({', '.join(f'{name}={_number(value)}' for name, value in self.strengths)})"


@dataclass(frozen=True)
class Origins:
    """How N pictures came about.

    Attributes:
        seeds: int64 (N,), the row of the real image that each was made from, or ``NO_SEED``.
        recipes: N texts, each a recipe; empty where nothing was done, or where a picture was drawn.
    """

    seeds: Int64Array
    recipes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.seeds)

    def __getitem__(self, rows: Int64Array | slice) -> Origins:
        """Those of some pictures."""
        chosen = np.arange(len(self))[rows]
        return Origins(self.seeds[chosen], tuple(self.recipes[row] for row in chosen.tolist()))

    @classmethod
    def drawn(cls, count: int) -> Origins:
        """Those of pictures that were drawn, not made from real images."""
        return cls(np.full(count, NO_SEED, dtype=np.int64), ("",) * count)


def recipe_text(steps: tuple[Step, ...]) -> str:
    """A recipe as one line of text."""
    return "; ".join(map(str, steps))


def _number(value: float) -> str:
    """Six digits of a number, and all of a whole one: it may be the row of an image."""
    value = float(value)
    return f"{value:.0f}" if value.is_integer() and abs(value) >= 1e6 else f"{value:.6g}"


def extended(recipe: str, step: Step) -> str:
    """A recipe with one more step at its end."""
    return f"{recipe}; {step}" if recipe else str(step)


def check_recipes(recipes: Iterable[str], fault: str) -> None:
    """Refuse what is no recipe, making nothing of what is one; UserError begins with ``fault``."""
    for text in recipes:
        try:
            if _RECIPE.fullmatch(text) is None:
                read_recipe(text)
        except (ValueError, TypeError) as error:  # a recipe that is no text at all
            raise UserError(
                f"{fault} ({error}); write one as noise(strength=10, angle=5); blur(), or make it with "
                "diffgen.origins.recipe_text."
            ) from error


def read_recipe(text: str) -> tuple[Step, ...]:
    """The steps of what :func:`recipe_text` gave. ValueError if the text is no recipe."""
    if not text:
        return ()
    spaced = re.sub(r" *([,;]) *", r"\1 ", text)
    if spaced != text and _RECIPE.fullmatch(spaced):
        raise ValueError(f"{text!r} needs one space behind each comma and semicolon, none before: {spaced!r}")
    steps = []
    for part in text.split("; "):
        match = _STEP.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is not a step of a recipe")
        pairs = [_STRENGTH.fullmatch(each) for each in match["strengths"].split(", ") if match["strengths"]]
        if any(each is None for each in pairs):
            raise ValueError(f"{part!r} has a strength that is no number")
        steps.append(Step(match["operator"], tuple((each["name"], float(each["value"])) for each in pairs if each)))
    return tuple(steps)
