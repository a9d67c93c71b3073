"""Counts and shares in words, the same in the command line, the report and the messages of a test."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_COLOURS = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_REFUSED = re.compile(r"GLOBAL (\S+) was not an allowed global|(Unsupported operand \d+)")
_BY = {"human": "people", "oracle": "reference models", "intended": "the generator's class", "jury": "the jury"}

_RESTS_ON = {
    "label": "the known label of the real image, which the jury only confirms,",
    "both": "label and jury, each by itself,",
    "jury": "the jury alone",
    "seed": "the known label of the real image, which mild changes keep,",
    "boxes": "the boxes of the real image, moved along,",
    "agreed": "what all models say of the real image, which mild changes keep,",
}


def count_of(amount: int, one: str, many: str | None = None) -> str:
    """``1 picture``, ``2 pictures``, ``1,234 pictures``; ``many`` is the plural where it is no mere s more."""
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"


def labelled_by(sources: Mapping[str, int]) -> str:
    """``1,234 by people, 20 by the jury``: how many labels come from which source, those without any left out."""
    return ", ".join(f"{count:,} by {_BY.get(source, source)}" for source, count in sources.items() if count)


def verdicts_rest_on(counts: Mapping[str, int]) -> str:
    """``the known label on 120, both on 300``: on how many recognised pictures who says what they show."""
    told = [f"{_RESTS_ON[basis]} on {count:,}" for basis, count in counts.items() if count and basis in _RESTS_ON]
    return ", ".join(told) or "nothing: no picture is recognised"


def why_no_jury_of(sentence: str) -> str:
    """Of the sentence that says that there is no jury, and why, the reason alone, as part of a sentence."""
    return re.sub(r"^No jury: |; (nothing says who is wrong|verdicts rest on).*|\.$", "", sentence)


def percent(share: float, digits: int = 1) -> str:
    """A share in 0..1 as text that never rounds something to nothing or nearly all to all."""
    if not math.isfinite(share):
        return "not a number"
    smallest = 10.0**-digits
    value = round(share * 100, 9)  # a sum of floats may miss 1 in its last digits
    if 0 < value < smallest:
        return f"<{smallest:.{digits}f}%"
    if 100 - smallest < value < 100:
        return f">{100 - smallest:.{digits}f}%"
    return f"{value:.{digits}f}%"


def leading_warning(warned: Mapping[str, str]) -> str:
    """Which of a check's warnings to say beside its verdict: that on the accuracy, else the first; empty for none.

    Args:
        warned: what to say of each condition, by its name.
    """
    said = warned.get("accuracy_drop") or next(iter(warned.values()), "")
    more = count_of(len(warned) - 1, "more warning")
    return f"{said} {more}." if len(warned) > 1 else said


def told_by(error: BaseException) -> str:
    """The one line of an exception's text that tells most, without colours; its class where it says nothing.

    torch surrounds what its reader of weights refuses with a page of advice to people who write programs.
    """
    text = _COLOURS.sub("", str(error))
    if (refused := _REFUSED.search(text)) is not None and "weights_only" in text:
        return refused[2] or f"it holds {refused[1]}"
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return first.partition(". This is an internal miniz error")[0]
