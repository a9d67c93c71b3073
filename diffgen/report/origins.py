"""How a picture was made, in plain English, and what made the pictures of a behaviour."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias

from diffgen.origins import Step
from diffgen.report.wording import number, with_minus
from diffgen.runs.triggers import Origin

_FEWEST = 3  # pictures that one operator must have had a part in
_SHARE = 1 / 3  # of the pictures of the behaviour
_NEARLY_ALL = 0.1  # share of these pictures that may have been changed by less than what is told

Strengths: TypeAlias = Mapping[str, float]


@dataclass(frozen=True)
class _Operator:
    """How an operator is told of.

    Attributes:
        phrase: what one step did, for its strengths by name.
        size: how strong it was, one number, 0 or more; None: nothing is said of many such pictures together.
        seen_from: the size, above 0, below which an eye hardly notices a change, so that it explains nothing.
        most: what most of some pictures have in common, for the least size that this is about.
    """

    phrase: Callable[[Strengths], str]
    size: Callable[[Strengths], float] | None = None
    seen_from: float = 1.0
    most: Callable[[float], str] = str


def origin_sentence(origin: Origin, names: Sequence[str], drawn_by: str) -> str:
    """Where a picture comes from: ``made from real image 4,311, a 4: turned 11 degrees``, or ``drawn by the GAN``.

    Args:
        names: K class names.
        drawn_by: what draws pictures in this run, such as "the GAN".
    """
    if origin.seed is None:
        return f"drawn by {drawn_by}, generation {number(origin.generation)}"
    seed = f"real image {number(origin.seed)}"
    if origin.seed_label is not None and 0 <= origin.seed_label < len(names):
        seed += f", labelled {names[origin.seed_label]}"
    if not origin.recipe:
        return f"made from {seed}"
    return f"made from {seed}: {', then '.join(map(step_phrase, origin.recipe))}"


def step_phrase(step: Step) -> str:
    """One operator and its strengths: ``turned 11 degrees``; of an operator without a phrase its own name."""
    strengths = dict(step.strengths)
    if step.operator in _OPERATORS:
        try:
            return _OPERATORS[step.operator].phrase(strengths)
        except KeyError:  # an operator of somebody else's that has the same name
            pass
    words = step.operator.replace("_", " ")
    if not strengths:
        return words
    return f"{words} ({', '.join(f'{name} {_short(value)}' for name, value in strengths.items())})"


def made_by(recipes: Sequence[tuple[Step, ...]]) -> str:
    """What most of some pictures have in common: ``27 of 31: turned by more than 9 degrees``, or empty: nothing.

    Args:
        recipes: what was done to each; empty where it was drawn.
    """
    strengths: dict[str, list[float]] = {}
    for recipe in recipes:
        for name, value in _strongest(recipe).items():
            if value >= _OPERATORS[name].seen_from:
                strengths.setdefault(name, []).append(value)

    def rank(name: str) -> tuple[float, float, str]:
        """Of two that had a part in as many pictures, the one that is seen more goes first."""
        return -len(strengths[name]), -median(strengths[name]) / _OPERATORS[name].seen_from, name

    best = min(strengths, key=rank, default="")
    if not best or len(strengths[best]) < max(_FEWEST, _SHARE * len(recipes)):
        return ""
    values = sorted(strengths[best])
    told = _rounded_down(values[int(_NEARLY_ALL * len(values))])
    return f"{sum(value >= told for value in values)} of {len(recipes)}: {_OPERATORS[best].most(told)}"


def _strongest(recipe: tuple[Step, ...]) -> dict[str, float]:
    """The size of each operator that something is said of: of several steps with it, that of the strongest."""
    found: dict[str, float] = {}
    for step in recipe:
        operator = _OPERATORS.get(step.operator)
        if operator is None or operator.size is None:
            continue
        try:
            # as exact as a recipe: 1 - 0.8 is 0.19999...
            value = float(f"{operator.size(dict(step.strengths)):.6g}")
        except KeyError:
            continue  # as in step_phrase
        found[step.operator] = max(value, found.get(step.operator, 0.0))
    return found


def _rounded_down(value: float) -> float:
    """Two significant digits, not more than the value, which is above 0."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    # 1.2 / 0.1 is 11.999...
    return float(f"{math.floor(value / unit + 1e-6) * unit:.2g}")


# -- phrases ---------------------------------------------------------------------------------------------------------


def _short(value: float) -> str:
    """A strength with at most three significant digits; whole numbers as they are."""
    text = f"{value:.0f}" if float(value).is_integer() and abs(value) < 1e6 else f"{value:.3g}"
    return with_minus(text)


def _count(value: float, one: str) -> str:
    return f"{_short(value)} {one if abs(value) == 1 else one + 's'}"


def _percent(value: float) -> str:
    return f"{_short(100 * value)}%"


def _moved(by: Strengths) -> str:
    """Pixels to the right and down, which may be negative."""
    right, down = by["right"], by["down"]
    ways = [
        f"{_count(abs(pixels), 'pixel')} {way}"
        for pixels, way in ((right, "right" if right > 0 else "left"), (down, "down" if down > 0 else "up"))
        if pixels
    ]
    return f"moved {' and '.join(ways)}" if ways else "not moved"


def _lighter(by: Strengths) -> str:
    if "factor" in by:
        return f"brightness times {_short(by['factor'])}"
    return f"made {_count(abs(by['levels']), 'grey level')} {'lighter' if by['levels'] >= 0 else 'darker'}"


def _two_ways(begins: str, *ways: tuple[str, str, str]) -> Callable[[Strengths], str]:
    """Shares that may be negative: of each its name, and what is said of it above and below 0."""

    def said(by: Strengths) -> str:
        told = [f"{_percent(abs(by[name]))} {more if by[name] > 0 else less}" for name, more, less in ways if by[name]]
        return f"{begins}{' and '.join(told)}" if told else "unchanged"

    return said


_SIDES = ("right", "on the right", "on the left"), ("down", "below", "above")


# -- sizes -----------------------------------------------------------------------------------------------------------


def _by(verb: str, unit: str) -> Callable[[float], str]:
    return lambda least: f"{verb} by {least:g}{unit} or more"


def _size(name: str, neutral: float = 0.0, times: float = 1.0) -> Callable[[Strengths], float]:
    return lambda by: times * abs(by[name] - neutral)


def _length(times: float = 1.0) -> Callable[[Strengths], float]:
    return lambda by: times * math.hypot(by["right"], by["down"])


def _larger(one: str, other: str, neutral: float = 0.0, times: float = 1.0) -> Callable[[Strengths], float]:
    return lambda by: times * max(abs(by[one] - neutral), abs(by[other] - neutral))


# The sizes were chosen by eye, an image beside the changed one, on handwritten digits and on photographs of 64 pixels.
_OPERATORS: dict[str, _Operator] = {
    "rotation": _Operator(
        lambda by: f"turned {_count(by['degrees'], 'degree')}", _size("degrees"), 2, _by("turned", " degrees")
    ),
    "shift": _Operator(_moved, _larger("right", "down"), 0.5, _by("moved", " pixels")),
    "shear": _Operator(
        lambda by: f"sheared {_count(by['degrees'], 'degree')}", _size("degrees"), 2, _by("sheared", " degrees")
    ),
    "scale": _Operator(
        lambda by: f"scaled to {_percent(by['factor'])}", _size("factor", 1, 100), 3, _by("scaled", "%")
    ),
    "elastic": _Operator(
        lambda by: f"bent by {_count(by['pixels'], 'pixel')}", _size("pixels"), 0.25, _by("bent", " pixels")
    ),
    "brightness": _Operator(_lighter, _size("factor", 1, 100), 10, _by("made lighter or darker", "%")),
    "contrast": _Operator(
        lambda by: f"contrast times {_short(by['factor'])}", _size("factor", 1, 100), 10, _by("contrast changed", "%")
    ),
    "gamma": _Operator(
        lambda by: f"gamma {_short(by['exponent'])}", _size("exponent", 1), 0.2, _by("gamma changed", "")
    ),
    "blur": _Operator(
        lambda by: f"blurred by {_count(by['sigma'], 'pixel')}", _size("sigma"), 0.5, _by("blurred", " pixels")
    ),
    "sharpen": _Operator(lambda by: f"sharpened by {_short(by['amount'])}", _size("amount"), 0.5, _by("sharpened", "")),
    "stretch": _Operator(
        lambda by: f"stretched to {_percent(by['width'])} of its width and {_percent(by['height'])} of its height",
        _larger("width", "height", 1, 100),
        3,
        _by("stretched or squeezed", "%"),
    ),
    "perspective": _Operator(_two_ways("smaller by ", *_SIDES), _length(100), 4, _by("turned away", "%")),
    "shade": _Operator(_two_ways("lighter by ", *_SIDES), _length(100), 10, _by("lit from one side", "%")),
    "tint": _Operator(
        _two_ways("", ("warmer", "warmer", "colder"), ("greener", "greener", "more purple")),
        _larger("warmer", "greener", 0, 100),
        3,
        _by("tinted", "%"),
    ),
    "saturation": _Operator(
        lambda by: f"saturation times {_short(by['factor'])}",
        _size("factor", 1, 100),
        20,
        _by("saturation changed", "%"),
    ),
    "motion": _Operator(
        lambda by: f"smeared by a motion of {_count(math.hypot(by['right'], by['down']), 'pixel')}",
        _length(),
        1,
        _by("smeared", " pixels"),
    ),
    "jpeg": _Operator(
        lambda by: f"saved as JPEG of quality {_short(100 - by['loss'])}",
        _size("loss"),
        20,
        lambda least: f"saved as JPEG of quality {100 - least:g} or less",
    ),
    "stroke": _Operator(
        lambda by: f"strokes {_count(abs(by['pixels']), 'pixel')} {'thicker' if by['pixels'] >= 0 else 'thinner'}",
        _size("pixels"),
        0.1,
        _by("strokes changed", " pixels"),
    ),
    "noise": _Operator(
        lambda by: f"noise of {_count(by['levels'], 'grey level')}", _size("levels"), 3, _by("noise", " grey levels")
    ),
    "noise_and_restore": _Operator(
        lambda by: f"noise of {_count(by['levels'], 'grey level')}, restored",
        _size("levels"),
        3,
        _by("noise, restored,", " grey levels"),
    ),
    "restored_from_noise": _Operator(
        lambda by: f"noise of {_count(by['levels'], 'grey level')}, restored in {_count(by['steps'], 'step')}"
    ),
    "towards": _Operator(
        lambda by: f"led {_percent(by['share'])} of the way towards real image {number(int(by['other']))}",
        _size("share", 0, 100),
        3,
        _by("led towards another image", "%"),
    ),
    "latent_steps": _Operator(
        lambda by: f"latent steps (distance {_short(by['distance'])})",
        _size("distance"),
        1e-6,
        lambda least: "varied as a code of the source",
    ),
    "code_noise": _Operator(
        lambda by: f"varied by {_short(by['sigma'])} sigma", _size("sigma"), 0.1, _by("varied", " sigma")
    ),
    "random_pixels": _Operator(lambda by: f"{_count(by['count'], 'pixel')} replaced at random"),
    "evolved_pixels": _Operator(lambda by: f"pixels evolved in {_count(by['rounds'], 'round')}"),
    "salt_and_pepper": _Operator(lambda by: f"{_percent(by['share'])} of the pixels made black or white"),
}
