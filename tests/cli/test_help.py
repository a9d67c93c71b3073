"""Help texts: examples come first, all of it is one screen, and stdout gets text alone."""

from __future__ import annotations

import argparse
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from diffgen.cli import VERBS, build_parser
from diffgen.cli.help import Parser
from diffgen.filters import FILTERS
from diffgen.sources.registry import SOURCES
from diffgen.techniques import TECHNIQUES

_NAMES = [module.__name__.rpartition(".")[2].replace("_", "-") for module in VERBS]


def parser_of(verb: str) -> Parser:
    (choice,) = (each for each in build_parser()._actions if isinstance(each, argparse._SubParsersAction))
    parser: Parser = choice.choices[verb]
    return parser


@pytest.mark.parametrize("verb", [None, *_NAMES])
def test_every_help_is_one_screen_with_its_examples_first(verb: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    lines = (build_parser() if verb is None else parser_of(verb)).format_help().splitlines()
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("usage: diffgen")
    # one paragraph before them says what it does
    assert [line for line in lines[: lines.index("examples:") - 1] if not line] == [""]


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_paragraphs_are_wrapped_to_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = parser_of("export").format_help().splitlines()
    prose = lines[: lines.index("examples:")]
    assert max(map(len, prose)) <= min(columns, 100)
    assert len(prose) > 3
    assert any(line.startswith("  -o, --output FOLDER") for line in lines)


def test_what_help_says_in_brief_help_all_says_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    shown = {}
    for option in ("--help", "--help-all"):
        with pytest.raises(SystemExit):
            build_parser().parse_args(["check", option])
        shown[option] = " ".join(capsys.readouterr().out.split())
    assert "by how much the accuracy on real images may fall" in shown["--help"]
    assert "may fall (default: fails if it is shown to be above 1%)" in shown["--help-all"]
    assert "--max-shift" not in shown["--help"]
    assert "--max-shift X" in shown["--help-all"]
    assert "--state-file FILE" in shown["--help-all"]
    for kind in (TECHNIQUES, SOURCES, FILTERS):
        assert all(f" {name} {line}" in shown["--help-all"] for name, line in kind.lines().items())


@pytest.mark.parametrize(("words", "said"), [(["--help"], b"diffgen"), (["compare", "--print-config"], b"fit = ")])
def test_a_terminal_gets_text_alone_on_stdout(words: list[str], said: bytes, repository: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "FORCE_COLOR": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "diffgen", *words], stdout=theirs, cwd=repository, env=environment
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # Linux says so that the other end is closed
                break
            if not piece:
                break
            shown += piece
    os.close(ours)
    assert process.returncode == 0
    assert said in shown
    assert b"\x1b" not in shown and b"\\u001b" not in shown


@pytest.mark.parametrize(("verb", "budget"), [("compare", "60s"), ("check", "20000q")])
def test_the_budget_that_is_named_is_the_verbs_own(verb: str, budget: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args([verb, "--help"])
    assert ended.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"search budget, in time, in queries, or both (default: {budget})" in said
