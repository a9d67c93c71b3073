"""What a person sees while a search runs, on a narrow terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from diffgen.cli.progress import Bars


def test_a_narrow_terminal_cuts_no_figure_off() -> None:
    screen = StringIO()
    figures = "queries/s 2,550  triggers 12,416 (657/s)  valid 81%  behaviours 1,156  label pairs 88"
    with Bars(console=Console(file=screen, width=60, force_terminal=True, color_system=None)) as bars:
        bars.add_task("Reading", total=1, figures="")
        bars.add_task("Searching for disagreements", total=10, completed=5, figures=figures)
    last = screen.getvalue().rpartition("Reading")[2]
    assert " ".join(figures.split()) in " ".join(last.split())
    assert "Searching for disagreements" in last
    assert "50%" in last
