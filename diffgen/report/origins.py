"""How a picture was made, in plain English."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from diffgen.origins import Step
from diffgen.report.wording import number, with_minus
from diffgen.runs.triggers import Origin


def origin_sentence(origin: Origin, names: Sequence[str], drawn_by: str) -> str:
    """Where a picture comes from: ``made from real image 4,311, a 4: turned 11 degrees``, or ``drawn by the GAN``.

    Args:
        origin: of the picture.
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
    # another version may have named its strengths otherwise
    for names, phrase in filter(None, (_PHRASES.get(step.operator), _OTHERWISE.get(step.operator))):
        if strengths.keys() >= set(names):
            return phrase(strengths)
    words = step.operator.replace("_", " ")
    if not strengths:
        return words
    return f"{words} ({', '.join(f'{name} {_short(value)}' for name, value in strengths.items())})"


def _short(value: float) -> str:
    """A strength with at most three significant digits; whole numbers as they are."""
    text = f"{value:.0f}" if float(value).is_integer() and abs(value) < 1e6 else f"{value:.3g}"
    return with_minus(text)


def _count(value: float, one: str) -> str:
    return f"{_short(value)} {one if abs(value) == 1 else one + 's'}"


def _moved(strengths: Mapping[str, float]) -> str:
    """Pixels to the right and down, which may be negative."""
    right, down = strengths["right"], strengths["down"]
    ways = [
        f"{_count(abs(by), 'pixel')} {way}"
        for by, way in ((right, "right" if right > 0 else "left"), (down, "down" if down > 0 else "up"))
        if by
    ]
    return f"moved {' and '.join(ways)}" if ways else "not moved"


def _lighter(strengths: Mapping[str, float]) -> str:
    levels = strengths["levels"]
    return f"made {_count(abs(levels), 'grey level')} {'lighter' if levels >= 0 else 'darker'}"


def _thicker(strengths: Mapping[str, float]) -> str:
    pixels = strengths["pixels"]
    return f"strokes {_count(abs(pixels), 'pixel')} {'thicker' if pixels >= 0 else 'thinner'}"


def _on_one_side(what: str) -> Callable[[Mapping[str, float]], str]:
    """Of shares to the right and down, which may be negative."""

    def said(by: Mapping[str, float]) -> str:
        ways = (_share(by["right"], "on the right", "on the left"), _share(by["down"], "below", "above"))
        return f"{what} by {' and '.join(filter(None, ways))}" if any(ways) else "unchanged"

    return said


def _share(value: float, more: str, less: str) -> str:
    """A share as a percentage and a word for its sign; nothing for 0."""
    return f"{_short(100 * abs(value))}% {more if value > 0 else less}" if value else ""


def _tinted(by: Mapping[str, float]) -> str:
    ways = (_share(by["warmer"], "warmer", "colder"), _share(by["greener"], "greener", "more purple"))
    return " and ".join(filter(None, ways)) or "unchanged"


def _smeared(by: Mapping[str, float]) -> str:
    length = math.hypot(by["right"], by["down"])
    return f"smeared by a motion of {_count(length, 'pixel')}"


# operator -> its strengths, and what is said of them
_PHRASES: dict[str, tuple[tuple[str, ...], Callable[[Mapping[str, float]], str]]] = {
    "shift": (("right", "down"), _moved),
    "brightness": (("levels",), _lighter),
    "rotation": (("degrees",), lambda by: f"turned {_count(by['degrees'], 'degree')}"),
    "shear": (("degrees",), lambda by: f"sheared {_count(by['degrees'], 'degree')}"),
    "scale": (("factor",), lambda by: f"scaled to {_short(100 * by['factor'])}%"),
    "contrast": (("factor",), lambda by: f"contrast times {_short(by['factor'])}"),
    "gamma": (("exponent",), lambda by: f"gamma {_short(by['exponent'])}"),
    "blur": (("sigma",), lambda by: f"blurred by {_count(by['sigma'], 'pixel')}"),
    "sharpen": (("amount",), lambda by: f"sharpened by {_short(by['amount'])}"),
    "stretch": (
        ("width", "height"),
        lambda by: (
            f"stretched to {_short(100 * by['width'])}% of its width and {_short(100 * by['height'])}% of its height"
        ),
    ),
    "perspective": (("right", "down"), _on_one_side("smaller")),
    "shade": (("right", "down"), _on_one_side("lighter")),
    "tint": (("warmer", "greener"), _tinted),
    "saturation": (("factor",), lambda by: f"saturation times {_short(by['factor'])}"),
    "motion": (("right", "down"), _smeared),
    "jpeg": (("loss",), lambda by: f"saved as JPEG of quality {_short(100 - by['loss'])}"),
    "elastic": (("pixels",), lambda by: f"bent by {_count(by['pixels'], 'pixel')}"),
    "stroke": (("pixels",), _thicker),
    "noise": (("levels",), lambda by: f"noise of {_count(by['levels'], 'grey level')}"),
    "noise_and_restore": (("levels",), lambda by: f"noise of {_count(by['levels'], 'grey level')}, restored"),
    "restored_from_noise": (
        ("levels", "steps"),
        lambda by: f"noise of {_count(by['levels'], 'grey level')}, restored in {_count(by['steps'], 'step')}",
    ),
    "towards": (
        ("share", "other"),
        lambda by: f"led {_short(100 * by['share'])}% of the way towards real image {number(int(by['other']))}",
    ),
    "code_noise": (("sigma",), lambda by: f"varied by {_short(by['sigma'])} sigma"),
    "random_pixels": (("count",), lambda by: f"{_count(by['count'], 'pixel')} replaced at random"),
    "evolved_pixels": (("rounds",), lambda by: f"pixels evolved in {_count(by['rounds'], 'round')}"),
    "salt_and_pepper": (("share",), lambda by: f"{_short(100 * by['share'])}% of the pixels made black or white"),
}
# the same for operators of the same name that measure themselves otherwise
_OTHERWISE: dict[str, tuple[tuple[str, ...], Callable[[Mapping[str, float]], str]]] = {
    "brightness": (("factor",), lambda by: f"brightness times {_short(by['factor'])}"),
}
