"""An explanation in sentences, and the options that feed a model rightly."""

from __future__ import annotations

from dataclasses import fields

from diffgen.causes.explanation import Explanation, Found
from diffgen.config import Preprocessing
from diffgen.wording import count_of

_OPTIONS = {"output": "output-name"}


def verdict(found: Explanation) -> str:
    """What was found, in a sentence or two."""
    if found.found:
        faults = ", and ".join(each.sentence for each in found.found)
        return f"{faults[0].upper()}{faults[1:]}. {explains(found.found[-1])}"
    if not found.tried:
        return (
            f"The models agree on all {count_of(found.images, 'picture')}, and their answers differ by rounding alone: "
            "there is nothing to explain."
        )
    if found.cut_short:
        return f"No cause was found in {found.queries:,} queries, and not all were tried; allow more."
    if found.most >= 1:
        return (
            f"No pipeline fault of the {found.tried} that were tried explains the difference for sure, and "
            f"{count_of(found.images, 'picture')} are too few to say that the weights differ; give more."
        )
    if not found.most:  # no share of it was tested
        return f"The weights differ: no pipeline fault of the {found.tried} that were tried brings the answers nearer."
    return (
        f"The weights differ: no pipeline fault of the {found.tried} that were tried explains more than "
        f"{found.most:.0%} of the difference."
    )


def explains(found: Found) -> str:
    """How much of the difference goes, and how sure that is."""
    low, high = max(0.0, found.low), max(0.0, found.high)
    share = (
        f"{found.share:.0%} of the difference ({low:.0%} to {high:.0%}, on {count_of(found.tested, 'picture')} that "
        "had no part in choosing it)"
    )
    before, after = found.labels
    labels = "" if before == after else f"; labels that differ on these: {before} before, {after} with it imitated"
    return f"This explains {share}{labels}."


def options_of(role: str, mend: Preprocessing) -> str:
    """The options of the command line that change a model's pre-processing: ``--b-channels bgr``."""
    words = []
    for each in fields(mend):
        value, option = getattr(mend, each.name), f"{role.lower()}-{_OPTIONS.get(each.name, each.name)}"
        if value is None:
            continue
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        elif each.name == "size":
            words.append(f"--{option} {'x'.join(map(str, value))}")
        elif isinstance(value, tuple):
            # empty values are said as those that change nothing
            numbers = value or ((0.0,) if each.name == "mean" else (1.0,))
            words.append(f"--{option} {' '.join(f'{number:g}' for number in numbers)}")
        else:
            words.append(f"--{option} {value}")
    return " ".join(words)
