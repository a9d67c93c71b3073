"""The verdict of a check: its sentence, its pictures on the page, and a summary short enough for a pull request."""

from __future__ import annotations

from dataclasses import dataclass

from diffgen.report.cards import Card, make_card
from diffgen.report.data import GateBehaviour, GateView, ReportData, VerdictData
from diffgen.report.markdown import escape_markdown
from diffgen.report.pictures import PictureBudget
from diffgen.report.wording import clean_text
from diffgen.wording import count_of, leading_warning

_PICTURE_BYTES = 400_000
_BEHAVIOURS_SHOWN = 24
_BEHAVIOURS_IN_SUMMARY = 5
_SENTENCES = {
    "PASS": "PASS: B may replace A as far as this check can tell.",
    "WARN": "WARN: no limit is broken, but look at what is marked WARN.",
    "FAIL": "FAIL: B differs from A by more than is allowed.",
    "ERROR": "ERROR: the check could not be completed.",
}
_MARKS = {"PASS": "✅", "WARN": "⚠️", "FAIL": "❌", "ERROR": "🛑", "": ""}


def verdict(view: GateView) -> str:
    """The status, what it means, and of a warning why."""
    return f"{_SENTENCES[view.status]} {warning(view)}".rstrip()


def warning(view: GateView) -> str:
    """What to say beside WARN; empty for another status."""
    warned = {each.name: f"{each.title}: {each.sentence}" for each in view.conditions if each.status == "WARN"}
    return leading_warning(warned) if view.status == "WARN" else ""


@dataclass(frozen=True)
class GateGroup:
    """One new behaviour on the page."""

    behaviour: GateBehaviour
    cards: tuple[Card, ...]


def make_gate(data: ReportData | VerdictData) -> tuple[GateGroup, ...]:
    """The new behaviours with pictures, those in which the candidate is wrong first, as many as fit."""
    if data.gate is None:
        return ()
    budget = PictureBudget(_PICTURE_BYTES)
    groups = []
    for behaviour in data.gate.new[:_BEHAVIOURS_SHOWN]:
        cards = []
        for picture in behaviour.pictures:
            source = budget.take(picture.image)
            if source is not None:
                kind = "store" if picture.identifier < 0 else "trigger"
                names, filters = data.class_names, data.filters
                cards.append(make_card(picture, source=source, nearest=None, kind=kind, names=names, filters=filters))
        if cards:
            groups.append(GateGroup(behaviour, tuple(cards)))
    return tuple(groups)


def render_gate_markdown(view: GateView) -> str:
    """``summary.md`` of a check: verdict, conditions, the worst new behaviours. Equal data gives equal text."""
    a, b = escape_markdown(view.base), escape_markdown(view.candidate)
    lines = [f"## {_MARKS[view.status]} diffgen check: {view.status}", ""]
    lines += [f"A, the base, is {a}; B, the candidate, is {b}; data: {escape_markdown(view.data_name)}.", ""]
    lines += [f"{sentence}\n" for sentence in view.verdicts]
    lines += ["| | | value | 95 % interval | limit |", "|---|---|---|---|---|"]
    for row in view.rows:
        status = f"{_MARKS[row.status]} {row.status}".strip()
        cells = (status, row.title, row.value, row.interval, row.limit)
        lines.append("| " + " | ".join(escape_markdown(cell) for cell in cells) + " |")
    lines.append("")
    lines += [f"- {row.title}: {escape_markdown(row.sentence)}" for row in view.conditions if row.status != "PASS"]
    lines += _worst(view)
    lines += ["", f"The pictures are in report.html of the run {escape_markdown(view.run)}."]
    return clean_text("\n".join(lines).rstrip() + "\n")


def _worst(view: GateView) -> list[str]:
    shown = view.new[:_BEHAVIOURS_IN_SUMMARY]
    if not shown:
        return []
    more = len(view.new) - len(shown)
    lines = ["", "| new behaviour | pictures | B wrong, A right | largest shift |", "|---|---:|---:|---:|"]
    for each in shown:
        a, b = (escape_markdown(name) for name in each.names)
        lines.append(
            f"| A says {a}, B says {b} (cell {each.cell}) | {each.count:,} | {each.faults:,} | {each.shift:.2f} |"
        )
    return [*lines, "", f"and {count_of(more, 'more new behaviour')}"] if more else lines
