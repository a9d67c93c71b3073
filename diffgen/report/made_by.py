"""What made the pictures of a behaviour: ``27 of 31: turned by more than 9 degrees``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from diffgen.origins import Step

_FEWEST = 3  # pictures that one operator must have had a part in
_SHARE = 1 / 3  # of the pictures of the behaviour
_NEARLY_ALL = 0.1  # share of these pictures that may have been changed by less than what is told


def made_by(recipes: Sequence[tuple[Step, ...]]) -> str:
    """What most of some pictures have in common in how they were made, in words, or empty: nothing.

    Args:
        recipes: what was done to each; empty where it was drawn.
    """
    strengths: dict[str, list[float]] = {}
    for recipe in recipes:
        for name, value in _strongest(recipe).items():
            if value >= _WORDS[name].seen_from:
                strengths.setdefault(name, []).append(value)
    # of two that had a part in as many pictures, the one that is seen more
    ranked = sorted(strengths, key=lambda name: (-len(strengths[name]), -_plainness(name, strengths[name]), name))
    if not ranked or len(strengths[ranked[0]]) < max(_FEWEST, _SHARE * len(recipes)):
        return ""
    values = sorted(strengths[ranked[0]])
    told = _rounded_down(values[int(_NEARLY_ALL * len(values))])
    count = sum(value >= told for value in values)
    return f"{count} of {len(recipes)}: {_WORDS[ranked[0]].phrase(told)}"


def _plainness(name: str, values: Sequence[float]) -> float:
    return median(values) / _WORDS[name].seen_from


def _strongest(recipe: tuple[Step, ...]) -> dict[str, float]:
    """The strength of each operator that something is said of: of several steps with it, that of the strongest."""
    found: dict[str, float] = {}
    for step in recipe:
        value = _strength(step)
        if value is not None:
            found[step.operator] = max(value, found.get(step.operator, 0.0))
    return found


def _strength(step: Step) -> float | None:
    """How strong a step is, 0 or more, or None: that of an operator that nothing is said of."""
    if step.operator not in _WORDS:
        return None
    try:
        # as exact as a recipe: 1 - 0.8 is 0.19999...
        return float(f"{_WORDS[step.operator].size(dict(step.strengths)):.6g}")
    except KeyError:
        return None  # another version named its strengths otherwise


def _rounded_down(value: float) -> float:
    """Two significant digits, not more than the value, which is above 0."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    # 1.2 / 0.1 is 11.999...
    return float(f"{math.floor(value / unit + 1e-6) * unit:.2g}")


@dataclass(frozen=True)
class _Words:
    """How the strength of an operator is told.

    Attributes:
        size: one number, 0 or more, for the operator's strengths by name.
        seen_from: the size, above 0, below which an eye hardly notices a change, so that it explains nothing.
        phrase: the words, for the least size that they are about.
    """

    size: Callable[[dict[str, float]], float]
    seen_from: float
    phrase: Callable[[float], str]


def _by(verb: str, unit: str) -> Callable[[float], str]:
    return lambda least: f"{verb} by {least:g}{unit} or more"


def _size(name: str, neutral: float = 0.0) -> Callable[[dict[str, float]], float]:
    return lambda strengths: abs(strengths[name] - neutral)


def _percent(name: str, neutral: float = 0.0) -> Callable[[dict[str, float]], float]:
    return lambda strengths: 100 * abs(strengths[name] - neutral)


# The sizes were chosen by eye, an image beside the changed one, on handwritten digits and on photographs of 64 pixels.
_WORDS: dict[str, _Words] = {
    "rotation": _Words(_size("degrees"), 2, _by("turned", " degrees")),
    "shift": _Words(lambda by: max(abs(by["right"]), abs(by["down"])), 0.5, _by("moved", " pixels")),
    "shear": _Words(_size("degrees"), 2, _by("sheared", " degrees")),
    "scale": _Words(_percent("factor", 1), 3, _by("scaled", "%")),
    "elastic": _Words(_size("pixels"), 0.25, _by("bent", " pixels")),
    "brightness": _Words(_percent("factor", 1), 10, _by("made lighter or darker", "%")),
    "contrast": _Words(_percent("factor", 1), 10, _by("contrast changed", "%")),
    "gamma": _Words(_size("exponent", 1), 0.2, _by("gamma changed", "")),
    "blur": _Words(_size("sigma"), 0.5, _by("blurred", " pixels")),
    "sharpen": _Words(_size("amount"), 0.5, _by("sharpened", "")),
    "stretch": _Words(
        lambda by: 100 * max(abs(by["width"] - 1), abs(by["height"] - 1)), 3, _by("stretched or squeezed", "%")
    ),
    "perspective": _Words(lambda by: 100 * math.hypot(by["right"], by["down"]), 4, _by("turned away", "%")),
    "shade": _Words(lambda by: 100 * math.hypot(by["right"], by["down"]), 10, _by("lit from one side", "%")),
    "tint": _Words(lambda by: 100 * max(abs(by["warmer"]), abs(by["greener"])), 3, _by("tinted", "%")),
    "saturation": _Words(_percent("factor", 1), 20, _by("saturation changed", "%")),
    "motion": _Words(lambda by: math.hypot(by["right"], by["down"]), 1, _by("smeared", " pixels")),
    "jpeg": _Words(_size("loss"), 20, lambda least: f"saved as JPEG of quality {100 - least:g} or less"),
    "stroke": _Words(_size("pixels"), 0.1, _by("strokes changed", " pixels")),
    "noise": _Words(_size("levels"), 3, _by("noise", " grey levels")),
    "noise_and_restore": _Words(_size("levels"), 3, _by("noise, restored,", " grey levels")),
    "towards": _Words(_percent("share"), 3, _by("led towards another image", "%")),
    "latent_steps": _Words(_size("distance"), 1e-6, lambda least: "varied as a code of the source"),
    "code_noise": _Words(_size("sigma"), 0.1, _by("varied", " sigma")),
}
