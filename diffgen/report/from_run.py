"""Writes the report of a run from what is in its folder; needs neither models nor data."""

from __future__ import annotations

from pathlib import Path

from diffgen.report.data import GateView
from diffgen.report.gate import render_gate_markdown, render_junit
from diffgen.report.html import render_html, render_verdict
from diffgen.report.markdown import render_markdown
from diffgen.report.reading import report_data, verdict_data
from diffgen.runs.files import write_text
from diffgen.runs.folder import RunFolder
from diffgen.runs.pictures import picture_name, write_png
from diffgen.runs.results import FinishedRun, UnfinishedCheck, read_results
from diffgen.runs.triggers import TriggerTable


def write_report(folder: RunFolder, triggers: TriggerTable | None = None) -> Path:
    """Write report.html, summary.md and images/; of a check that did not come to its end what is known of it.

    Args:
        triggers: its triggers with verdicts where they are in memory, or None: they are read.
    """
    page = folder.file("report.html")
    results = read_results(folder)
    if isinstance(results, UnfinishedCheck):
        verdict = verdict_data(folder, results)
        _write_gate(folder, verdict.gate)
        write_text(page, render_verdict(verdict))
        return page
    run = FinishedRun(folder, results, folder.read_judged() if triggers is None else triggers)
    data = report_data(run)
    if data.gate is None:
        write_text(folder.file("summary.md"), render_markdown(data))
    else:
        _write_gate(folder, data.gate)
    write_text(page, render_html(data))
    folder.make_folder("images")
    for group in data.groups:
        for picture in group.pictures:
            name = picture_name(picture.identifier, group.labels)
            write_png(folder.file("images", name), picture.image)
    return page


def _write_gate(folder: RunFolder, view: GateView) -> None:
    write_text(folder.file("summary.md"), render_gate_markdown(view))
    write_text(folder.file("junit.xml"), render_junit(view))
