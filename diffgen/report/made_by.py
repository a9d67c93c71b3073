"""What made the pictures of a behaviour: ``27 of 31: turned by more than 9 degrees``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from diffgen.origins import Step

_FEWEST = 3  # pictures that one operator must have had a part in
_SHARE = 1 / 3  # of the pictures of the behaviour
_NOTHING = 1e-3  # in whatever unit
_NEARLY_ALL = 0.1  # share of these pictures that may have been changed by less than what is told


def made_by(recipes: Sequence[tuple[Step, ...]]) -> str:
    """What most of some pictures have in common in how they were made, in words, or empty: nothing.

    Args:
        recipes: what was done to each; empty where it was drawn.
    """
    strengths: dict[str, list[float]] = {}
    for recipe in recipes:
        for name, value in {step.operator: _strength(step) for step in recipe}.items():
            if value is not None:
                strengths.setdefault(name, []).append(value)
    ranked = sorted(strengths, key=lambda name: (-len(strengths[name]), name))
    if not ranked or len(strengths[ranked[0]]) < max(_FEWEST, _SHARE * len(recipes)):
        return ""
    phrase, values = _PHRASES[ranked[0]][1], sorted(strengths[ranked[0]])
    least = values[int(_NEARLY_ALL * len(values))]
    told = _rounded_down(least)
    count = sum(value >= told for value in values)
    return f"{count} of {len(recipes)}: {phrase(told) if told > 0 else phrase(0.0)}"


def _strength(step: Step) -> float | None:
    """How strong a step is, 0 or more, or None: that of an operator that nothing is said of."""
    if step.operator not in _PHRASES:
        return None
    try:
        # as exact as a recipe: 1 - 0.8 is 0.19999...
        return float(f"{_PHRASES[step.operator][0](dict(step.strengths)):.6g}")
    except KeyError:
        return None  # another version named its strengths otherwise


def _rounded_down(value: float) -> float:
    """Two significant digits, not more than the value; 0 for what is next to nothing."""
    if value < _NOTHING:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    # 1.2 / 0.1 is 11.999...
    return float(f"{math.floor(value / unit + 1e-6) * unit:.2g}")


def _by(verb: str, unit: str, digits: str = "g") -> Callable[[float], str]:
    return lambda least: f"{verb} by {format(round(least, 6), digits)}{unit} or more" if least else verb


def _size(name: str, neutral: float = 0.0) -> Callable[[dict[str, float]], float]:
    return lambda strengths: abs(strengths[name] - neutral)


_PHRASES: dict[str, tuple[Callable[[dict[str, float]], float], Callable[[float], str]]] = {
    "rotation": (_size("degrees"), _by("turned", " degrees")),
    "shift": (lambda by: max(abs(by["right"]), abs(by["down"])), _by("moved", " pixels")),
    "shear": (_size("degrees"), _by("sheared", " degrees")),
    "scale": (lambda by: 100 * abs(by["factor"] - 1), _by("scaled", "%")),
    "elastic": (_size("pixels"), _by("bent", " pixels")),
    "brightness": (lambda by: 100 * abs(by["factor"] - 1), _by("made lighter or darker", "%")),
    "contrast": (lambda by: 100 * abs(by["factor"] - 1), _by("contrast changed", "%")),
    "gamma": (_size("exponent", 1.0), _by("gamma changed", "")),
    "blur": (_size("sigma"), _by("blurred", " pixels")),
    "sharpen": (_size("amount"), _by("sharpened", "")),
    "stretch": (
        lambda by: 100 * max(abs(by["width"] - 1), abs(by["height"] - 1)),
        _by("stretched or squeezed", "%"),
    ),
    "perspective": (lambda by: 100 * math.hypot(by["right"], by["down"]), _by("turned away", "%")),
    "shade": (lambda by: 100 * math.hypot(by["right"], by["down"]), _by("lit from one side", "%")),
    "tint": (lambda by: 100 * max(abs(by["warmer"]), abs(by["greener"])), _by("tinted", "%")),
    "saturation": (lambda by: 100 * abs(by["factor"] - 1), _by("saturation changed", "%")),
    "motion": (lambda by: math.hypot(by["right"], by["down"]), _by("smeared", " pixels")),
    "jpeg": (_size("loss"), lambda least: f"saved as JPEG of quality {100 - least:g} or less"),
    "stroke": (_size("pixels"), _by("strokes changed", " pixels")),
    "noise": (_size("levels"), _by("noise", " grey levels")),
    "noise_and_restore": (_size("levels"), _by("noise, restored,", " grey levels")),
    "towards": (lambda by: 100 * abs(by["share"]), _by("led towards another image", "%")),
    "latent_steps": (_size("distance"), lambda least: "varied as a code of the source"),
    "code_noise": (_size("sigma"), _by("varied", " sigma")),
}
