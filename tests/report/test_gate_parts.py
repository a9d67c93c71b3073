"""junit.xml against the schemas of Jenkins and Surefire, and the summary for a pull request."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lxml import etree

from diffgen.report.data import ConditionView, GateBehaviour, GateView, Picture, ReportData, VerdictData
from diffgen.report.gate import render_gate_markdown, render_junit
from diffgen.report.html import render_html, render_verdict
from tests.report.changes import changed
from tests.report.junit_schemas import JENKINS, SUREFIRE

_ODD = 'A "quoted" <b>class</b> | \x00\x1b& \ud800 ünï'


def gate(status: str = "FAIL", new: int = 2) -> GateView:
    image = np.arange(64, dtype=np.uint8).reshape(1, 8, 8)
    picture = Picture(image=image, labels=(4, 9), probabilities=np.full((2, 10), 0.1, np.float32), identifier=7)
    behaviours = [
        GateBehaviour((4, 9), ("4", "9"), cell, 3, cell < new, 0.5, cell == 1, (picture,)) for cell in range(new + 1)
    ]
    fails = status == "FAIL"
    rows = (
        ConditionView("search", "search", "PASS", "20,000 queries", "", "", "The search came to its end."),
        ConditionView("new_behaviours", "new behaviours", status, f"{new} new, 1 known", "", "0", "Why."),
        ConditionView(
            "disagreement_real", "disagreement on real images", "WARN", "0.10%", "0.01% to 0.6%", "0.5%", "Few."
        ),
        ConditionView("shift_real", "largest shift", "", "0.12", "", "", ""),
    )
    return GateView(
        run="nightly",
        status=status,
        base="float.onnx",
        candidate="int8.onnx",
        data_name="val/",
        rows=rows,
        behaviours=tuple(behaviours),
        fails_on_behaviours=fails,
        store="regressions",
        created="2026-11-21T12:00:00+00:00",
        version="0.1.0",
        seconds=12.3456,
    )


def test_a_behaviour_says_on_how_many_pictures_the_candidate_is_wrong() -> None:
    view = gate("FAIL")
    behaviours = tuple(replace(each, faults=2) for each in view.behaviours)
    judged = replace(view, behaviours=behaviours, verdicts=("B is wrong where A is right on 9 pictures, in 3 ways.",))
    text = render_junit(judged)
    assert "B is wrong where A is right on 9 pictures" in text and "is wrong where the base is right on 2" in text
    _valid(JENKINS, etree.fromstring(text))
    assert "| 3 | 2 | 0.50 |" in render_gate_markdown(judged) and "B is wrong where" in render_gate_markdown(judged)


def test_a_limit_on_faults_fails_the_behaviours_that_have_some() -> None:
    view = replace(gate("PASS", new=2), fails_on_faults=True)
    one, *others = view.behaviours
    root = etree.fromstring(render_junit(replace(view, behaviours=(replace(one, faults=1), *others))))
    assert [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None] == [
        "base says 4, candidate says 9, cell 0"
    ]
    known = replace(view.behaviours[-1], faults=3)
    assert not known.new and not view.breaks(known)


def _valid(schema: str, element: etree._Element) -> None:
    etree.XMLSchema(etree.fromstring(schema)).assertValid(element)


@pytest.mark.parametrize("status", ["PASS", "FAIL", "ERROR"])
@pytest.mark.parametrize("name", ["7", _ODD])
def test_junit_keeps_both_schemas(status: str, name: str) -> None:
    view = gate(status)
    odd = tuple(replace(each, names=(name, "9")) for each in view.behaviours)
    root = etree.fromstring(render_junit(replace(view, behaviours=odd, base=name)).encode("utf-8"))
    _valid(JENKINS, root)
    _valid(SUREFIRE, root[0])


def test_the_schemas_refuse_what_they_should() -> None:
    root = etree.fromstring(render_junit(gate()).encode("utf-8"))
    root.set("skipped", "0")
    with pytest.raises(etree.DocumentInvalid):
        _valid(JENKINS, root)
    root[0][1].set("time", "soon")
    with pytest.raises(etree.DocumentInvalid):
        _valid(SUREFIRE, root[0])


@pytest.mark.parametrize(("status", "failures", "errors"), [("PASS", 0, 0), ("FAIL", 3, 0), ("ERROR", 0, 1)])
def test_junit_has_a_failure_exactly_if_the_check_has_one(status: str, failures: int, errors: int) -> None:
    root = etree.fromstring(render_junit(gate(status)).encode("utf-8"))
    cases = root.findall(".//testcase")
    # three conditions (a value without a limit is none) and three behaviours, one of them known
    assert len(cases) == 6 == int(root.get("tests"))
    assert len(root.findall(".//failure")) == failures == int(root.get("failures"))
    assert len(root.findall(".//error")) == errors == int(root.get("errors"))
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == 6


def test_summary_is_short_and_names_the_worst() -> None:
    text = render_gate_markdown(gate(new=40))
    assert len(text.splitlines()) < 40
    assert "FAIL" in text.splitlines()[0]
    assert "A says 4, B says 9 (cell 0)" in text
    assert "35 more new behaviours" in text
    assert "0.01% to 0.6%" in text


def test_summary_shows_names_as_they_are() -> None:
    view = replace(gate(), base=_ODD)
    text = render_gate_markdown(view)
    assert "<b>" not in text and "\x00" not in text
    text.encode("utf-8")


def test_page_has_the_verdict_first(report_data: ReportData, read_page: type) -> None:
    page = read_page(render_html(changed(report_data, gate=gate())))
    assert page.problems == []
    assert "FAIL: B differs from A" in page.flat_text
    assert page.all("section")[0]["id"] == "gate"
    assert [each["class"] for each in page.all("h1")] == ["verdict fail"]  # the largest thing on the page
    assert page.flat_text.index("no limit") < page.flat_text.index("Before the search")
    # there are other reasons than too few images
    warned = read_page(render_html(changed(report_data, gate=gate("WARN"))))
    assert "WARN: no limit is broken, but look at what is marked WARN. new behaviours: Why." in warned.flat_text
    plain = read_page(render_html(report_data))
    assert "gate" not in [section["id"] for section in plain.all("section")]


def test_page_of_a_check_that_broke_off(report_data: ReportData, read_page: type) -> None:
    """What was measured, and the reason; names and the reason come from the user's models."""
    data = VerdictData(
        run=_ODD,
        created="2026-11-21T12:00:00+00:00",
        version="0.1.0",
        command="diffgen check",
        model_names=(_ODD, "int8.onnx"),
        data_name="val/",
        problem=f"The search broke off: out of order {_ODD}",
        class_names=tuple("0123456789"),
        triggers=1234,
        preflight=report_data.preflight,
        real_disagreement_count=17,
        settings=report_data.settings,
        files=report_data.files,
        gate=gate("ERROR"),
    )
    source = render_verdict(data)
    page = read_page(source)
    assert page.problems == [] and page.script == "" and "script-src 'none'" in source
    assert "<b>class</b>" not in source
    assert "ERROR: the check could not be completed" in page.flat_text
    assert "out of order" in page.flat_text and "1,234 triggers" in page.flat_text
    assert "real disagreements" in page.flat_text
    assert [section["id"] for section in page.all("section")] == ["gate", "preflight", "settings"]
    assert render_verdict(data) == source
