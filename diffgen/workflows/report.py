"""Entry point of ``diffgen report``: draw the report of a run again; needs neither models nor data."""

from __future__ import annotations

from pathlib import Path

from diffgen.report.from_run import write_report
from diffgen.runs.folder import RunFolder


def draw_report(run: str | Path) -> Path:
    """Draw report.html, summary.md and images/ of a run again; returns the path of report.html.

    Raises:
        UserError: there is no finished run at that place.
    """
    folder = RunFolder.open(run)
    with folder.reading():
        return write_report(folder)
