"""What events look like on a screen and in a log."""

from __future__ import annotations

import sys
from typing import Literal

import pytest

from diffgen.cli import progress as shown
from diffgen.cli.progress import TerminalListener, in_words
from diffgen.events import BehaviourFound, Message, StageAdvanced, StageEnded, StageStarted


@pytest.mark.parametrize(
    ("figures", "text"),
    [
        ({}, ""),
        ({"queries_per_s": 2550.4}, "queries/s 2,550"),
        ({"triggers": 12416, "triggers_per_s": 657.2}, "triggers 12,416 (657/s)"),
        ({"valid_share": 0.81, "kinds_of_triggers": 1156}, "valid 81%  kinds of triggers 1,156"),
        ({"d_loss": 1.256, "g_loss": -0.5}, "d loss 1.26  g loss -0.50"),
    ],
)
def test_figures_in_words(figures: dict[str, float], text: str) -> None:
    assert in_words(figures) == text


def test_a_log_gets_a_line_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(shown.time, "monotonic", lambda: now[0])
    listener = TerminalListener()
    listener(StageStarted("Searching", 200))
    for seconds, done in ((1, 10), (11, 50), (12, 60), (22, 150)):
        now[0] = 100.0 + seconds
        listener(StageAdvanced("Searching", done, {"triggers": done}))
    listener(BehaviourFound(1, 150))
    now[0] = 130.0
    listener(StageEnded("Searching"))
    assert capsys.readouterr().err.splitlines() == [
        "Searching: 25%, about 33 s left  triggers 50",
        "Searching: 75%, about 7 s left  triggers 150",
        "Searching: 75% in 30 s  triggers 150",
    ]


def test_a_stage_that_is_soon_over_leaves_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    listener = TerminalListener()
    for event in (StageStarted("Reading", None), StageAdvanced("Reading", 5), StageEnded("Reading")):
        listener(event)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("quiet", "verbose", "said"),
    [
        (False, False, ["one", "warning: three"]),
        (False, True, ["one", "two", "warning: three"]),
        (True, True, ["warning: three"]),
    ],
)
def test_who_is_told_what(quiet: bool, verbose: bool, said: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    listener = TerminalListener(quiet=quiet, verbose=verbose)
    for event in (Message("info", "one"), Message("detail", "two"), Message("warning", "three")):
        listener(event)
    assert capsys.readouterr().err.splitlines() == said


@pytest.mark.parametrize("level", ["info", "detail", "warning"])
def test_what_a_strangers_file_says_moves_no_cursor(
    level: Literal["info", "detail", "warning"], capsys: pytest.CaptureFixture[str]
) -> None:
    """A class name, a path or a server's sentence may hold escape sequences."""
    TerminalListener(verbose=True)(Message(level, "class \x1b]0;owned\x07 and \x9b2J, twice\n\x1b[1Aover it\rgone"))
    said = capsys.readouterr().err
    assert said.endswith("class \\u001b]0;owned\\u0007 and \\u009b2J, twice\n\\u001b[1Aover it\\u000dgone\n")
    assert not set(said) & {chr(code) for code in (*range(10), *range(11, 32), *range(127, 160))}


def test_the_name_of_a_file_is_no_markup(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    for console in (Console(force_terminal=True, width=100, file=sys.stdout), None):
        listener = TerminalListener()
        if console is not None:
            monkeypatch.setitem(listener.__dict__, "_console", console)
        monkeypatch.setattr(shown, "_SILENT_SECONDS", 0.0)
        for event in (StageStarted("Reading a[/b]\x07.npz", 2), StageEnded("Reading a[/b]\x07.npz")):
            listener(event)
        said = "".join(capsys.readouterr())
        assert "Reading a[/b]\\u0007.npz" in said and "\x07" not in said
