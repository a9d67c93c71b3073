"""A check as JUnit XML: one test case for each condition, one for each behaviour.

Written with the standard library: junitparser puts ``skipped`` on ``testsuites``, which the schema of Jenkins refuses.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from diffgen.report.data import ConditionView, GateBehaviour, GateView
from diffgen.wording import count_of

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
