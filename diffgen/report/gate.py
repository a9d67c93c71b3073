"""The verdict of a check: its sentence, its pictures on the page, a summary for a pull request, and JUnit XML.

The XML is written with the standard library: junitparser puts ``skipped`` on ``testsuites``, which the schema of
Jenkins refuses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree import ElementTree

from diffgen.report.cards import Card, PictureBudget, make_card
from diffgen.report.data import ConditionView, GateBehaviour, GateView, ReportData, VerdictData
from diffgen.report.markdown import escape_markdown
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
# what XML 1.0 cannot hold, not even escaped
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# of many classes, told whether or not there is a limit on them
_FLIPS = {
    "disagreement_real": "top5_flips_real",
    "disagreement_random": "top5_flips_random",
}
# status -> element and type
_PROBLEMS = {"FAIL": ("failure", "limit"), "ERROR": ("error", "unfinished")}


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
    lines += [f"Probable cause: {escape_markdown(view.cause)}\n"] if view.cause else []
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


# -- JUnit ------------------------------------------------------------------------------------------------------------


def render_junit(view: GateView) -> str:
    """``junit.xml``.

    A condition that failed is a failure, one that could not be measured an error; a warning passes, its sentence in
    ``system-out``. A behaviour fails when the store does not know it and there are more such than are allowed, or more
    such in which the candidate is wrong: the file has a failure exactly if the check has one. What stands where keeps
    both Surefire's schema and that of Jenkins.
    """
    cases = [_condition(row, view.seconds if row.name == "search" else 0.0) for row in view.conditions]
    cases += [_behaviour(each, fails=view.breaks(each)) for each in view.behaviours]
    failures, errors = (sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error"))
    counts = {"tests": str(len(cases)), "failures": str(failures), "errors": str(errors)}
    seconds = f"{view.seconds:.3f}"
    root = ElementTree.Element("testsuites", {"name": "diffgen check", **counts, "time": seconds})
    suite = ElementTree.SubElement(
        root, "testsuite", {"name": "diffgen check", **counts, "skipped": "0", "time": seconds}
    )
    properties = ElementTree.SubElement(suite, "properties")
    facts = {"verdict": " ".join(view.verdicts)} if view.verdicts else {}
    facts |= {"probable cause": view.cause} if view.cause else {}
    measured = {row.name: row for row in view.rows}
    for top1, top5 in _FLIPS.items():
        if top5 in measured:
            facts |= {measured[name].title: measured[name].value for name in (top1, top5) if name in measured}
    facts |= {"base": view.base, "candidate": view.candidate, "data": view.data_name, "run": view.run}
    for name, value in {**facts, "created": view.created, "diffgen": view.version}.items():
        ElementTree.SubElement(properties, "property", {"name": name, "value": _text(value)})
    suite.extend(cases)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _condition(row: ConditionView, seconds: float) -> ElementTree.Element:
    limit = f", limit {row.limit}" if row.limit else ""
    interval = f", 95 % interval {row.interval}" if row.interval else ""
    said = f"{row.status}: {row.value}{interval}{limit}. {row.sentence}"
    return _case("diffgen.condition", row.title, said, row.status, seconds)


def _behaviour(each: GateBehaviour, *, fails: bool) -> ElementTree.Element:
    name = f"base says {each.names[0]}, candidate says {each.names[1]}, cell {each.cell}"
    where = "by the search"
    if each.replayed:
        name, where = f"{name}, in the store", "in the store with other labels"
    known = "new" if each.new else "known"
    said = f"{known}: {count_of(each.count, 'picture')} found {where}, largest probability shift {each.shift:.2f}"
    if each.faults:
        said += f"; the candidate is wrong where the base is right on {each.faults:,}"
    return _case("diffgen.behaviour", name, said, "FAIL" if fails else "PASS", 0.0)


def _case(classname: str, name: str, said: str, status: str, seconds: float) -> ElementTree.Element:
    case = ElementTree.Element("testcase", {"name": _text(name), "classname": classname, "time": f"{seconds:.3f}"})
    if status in _PROBLEMS:
        element, kind = _PROBLEMS[status]
        ElementTree.SubElement(case, element, {"message": _text(said), "type": kind})
    ElementTree.SubElement(case, "system-out").text = _text(said)
    return case


def _text(text: str) -> str:
    return _ILLEGAL.sub(_REPLACEMENT, text)
