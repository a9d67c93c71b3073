"""The table and the page of a sweep."""

from __future__ import annotations

import csv
from pathlib import Path

from diffgen.workflows.sweep_outcomes import Outcome, write_table


def test_a_page_of_what_is_done_failed_and_open(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    outcomes = [
        Outcome(str(runs / "one-1"), "one", "diffgan", "2000q", 1, "done", 2_000, 61.26, 1_234, behaviours=7),
        Outcome(str(runs / "one-2"), "one", "diffgan", "2000q", 2, "done", 2_000, 63.0, 1_235, behaviours=10),
        Outcome(str(runs / "one-3"), "one", "diffgan", "2000q", 3, "failed", why="The model <b> is gone."),
        Outcome(str(runs / "one-4"), "one", "diffgan", "2000q", 4, "open"),
    ]
    page = write_table(outcomes, tmp_path).read_text()
    assert "2 of 4 comparisons are done" in page
    assert 'href="runs/one-1/report.html"' in page
    style = page.partition("<style>")[2].partition("</style>")[0]
    assert '"Segoe UI"' in style and "&" not in style  # CSS knows no entities
    assert "<td>61</td>" in page  # seconds
    assert "<td>1,234.5</td>" in page  # a median between two
    assert "<td>8.5</td>" in page
    assert "<strong>one, diffgan, 2000q, seed 3:</strong> The model &lt;b&gt; is gone." in page
    assert '<td class="text">open</td>' in page
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert [row["status"] for row in rows] == ["done", "done", "failed", "open"]
    assert [row["triggers"] for row in rows] == ["1234", "1235", "", ""]
