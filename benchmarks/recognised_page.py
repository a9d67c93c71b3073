"""The page of benchmarks/recognised.py: tables of each condition, and the default against the best other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.recognised_cells import Cell
from diffgen.techniques import TECHNIQUES

Judged = Mapping[Cell, Mapping[str, Any]]

# as_is asks about the given images alone, whatever the budget
OTHERS = tuple(name for name in TECHNIQUES.names() if name not in ("diffgan", "as_is"))
OWN = ("gan", "seeds")  # the parts of which the default is made
_COLUMNS = {
    "behaviours": "recognised behaviours",
    "at_least": "there are at least",
    "valid_behaviours": "of the valid",
    "counted_behaviours": "of the jury's",
    "recognised": "recognised triggers",
    "near_duplicates": "near-duplicates",
    "counted_near_duplicates": "near-duplicates, of the jury's",
    "triggers": "triggers",
    "queries": "queries",
    "valid_precision": "judge recognises of the valid",
    "jury_precision": "judge recognises of the jury's",
    "search_processor_seconds": "processor s of search",
}
_SHARES = ("near_duplicates", "counted_near_duplicates", "valid_precision", "jury_precision")
_FIRST = {
    "preparation_processor_seconds": "search begins",
    "first_trigger": "first trigger",
    "first_recognised": "first recognised trigger",
}


def page(judged: Judged, seconds: Mapping[str, float], notes: Sequence[str]) -> str:
    """Markdown: all that was judged.

    Args:
        judged: figures of each cell.
        seconds: of each condition.
        notes: sentences on the judges and models.
    """
    lines = ["# Recognised behaviours in equal seconds", ""]
    lines += ["Made by `python -m benchmarks.recognised`; see the text of that module for what is counted.", ""]
    lines += [f"* {note}" for note in notes if note]
    for condition in seconds:
        here = {cell: found for cell, found in judged.items() if cell.condition == condition}
        if not here:
            continue
        how = "search, everything trained in the cache" if condition == "warm" else "processor time from an empty cache"
        lines += ["", f"## {condition}: {seconds[condition]:g} s of {how}"]
        lines += ["", "Median of the seeds (lowest to highest).", "", *_ratios(here)]
        for pair in _unique(cell.pair for cell in here):
            lines += ["", f"### {pair}", "", *_table(here, pair, _COLUMNS)]
        if condition == "cold":
            lines += ["", "### Processor seconds from an empty cache", ""]
            for pair in _unique(cell.pair for cell in here):
                lines += [f"{pair}:", "", *_table(here, pair, _FIRST), ""]
    return "\n".join(lines).rstrip() + "\n"


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def values_of(judged: Judged, pair: str, way: str, name: str) -> list[float]:
    """A figure of all seeds that have it."""
    return [
        float(found[name])
        for cell, found in judged.items()
        if (cell.pair, cell.way) == (pair, way) and found.get(name) is not None
    ]


def _table(judged: Judged, pair: str, columns: Mapping[str, str]) -> list[str]:
    ways = _unique(cell.way for cell in judged if cell.pair == pair)
    lines = ["| way | seeds | " + " | ".join(columns.values()) + " |", "|---|" + "---:|" * (len(columns) + 1)]
    for way in ways:
        count = len(values_of(judged, pair, way, "queries"))
        cells = [_range(values_of(judged, pair, way, name), share=name in _SHARES) for name in columns]
        lines.append(f"| {way} | {count} | " + " | ".join(cells) + " |")
    return lines


def _range(values: Sequence[float], *, share: bool) -> str:
    if not values:
        return ""

    def shown(value: float) -> str:
        if share:
            return f"{value:.0%}"
        return f"{value:,.0f}" if abs(value) >= 20 or value == int(value) else f"{value:.1f}"

    return f"{shown(float(np.median(values)))} ({shown(min(values))} to {shown(max(values))})"


def _ratios(judged: Judged) -> list[str]:
    """The default's median against that of the best other technique, and against its own parts."""
    lines = ["| pair | default | best other technique | ratio | ratio, counted | against gan | against seeds |"]
    lines.append("|---|---:|---|---:|---:|---:|---:|")
    for pair in _unique(cell.pair for cell in judged):
        own, others, ratio = best_other(judged, pair, "behaviours")
        if own is None or others is None:
            continue
        counted = best_other(judged, pair, "counted_behaviours")[2]
        against = [_ratio(own, _median(judged, pair, way, "behaviours")) for way in OWN]
        way, best = others
        row = [f"{own:g}", f"{way} {best:g}", _shown(ratio), _shown(counted), *map(_shown, against)]
        lines.append(f"| {pair} | " + " | ".join(row) + " |")
    return lines if len(lines) > 2 else []


def best_other(judged: Judged, pair: str, name: str) -> tuple[float | None, tuple[str, float] | None, float | None]:
    """The default's median of a figure, the best other technique with its median, and the ratio of the two."""
    own = _median(judged, pair, "default", name)
    medians = {way: _median(judged, pair, way, name) for way in OTHERS}
    known = [(way, value) for way, value in medians.items() if value is not None]
    if own is None or not known:
        return own, None, None
    best = max(known, key=lambda each: each[1])
    return own, best, _ratio(own, best[1])


def _median(judged: Judged, pair: str, way: str, name: str) -> float | None:
    values = values_of(judged, pair, way, name)
    return float(np.median(values)) if values else None


def _ratio(own: float, other: float | None) -> float | None:
    return None if other is None or (own == 0 and other == 0) else own / other if other else float("inf")


def _shown(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"
