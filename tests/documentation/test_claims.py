"""What pages and examples name is there: verbs with their options, settings, Python."""

from __future__ import annotations

import argparse
import importlib
import re
from pathlib import Path

import pytest

from docs.tools.reference_pages import all_settings, verbs

_COMMAND = re.compile(r"(?:(?<=^)|(?<=`)|(?<=!)|(?<= ))diffgen ([a-z][a-z-]*)([^\n`|]*)", re.MULTILINE)
_OPTION = re.compile(r"(?<![\w-])(--?[a-z][a-z-]*)(?=[ =]|$)")
_SETTING = re.compile(r"--set ([a-z_.]+)=")
_PYTHON = re.compile(r"(?<![\w./-])diffgen((?:\.[A-Za-z_]+)+)(?=[(`])")


@pytest.fixture(scope="module")
def texts(repository: Path) -> dict[str, str]:
    """Pages that say how diffgen is used, and examples; a command that goes on in the next line is one line."""
    written = [*(repository / "docs").glob("*/*.md"), *(repository / "examples").glob("*"), repository / "README.md"]
    folders = {"decisions", "generated", "results"}
    found = {}
    for file in (each for each in written if each.is_file() and each.parent.name not in folders):
        text = re.sub(r"\\\n\s*", " ", file.read_text(encoding="utf-8"))
        found[str(file.relative_to(repository))] = re.sub(r"(?<=[^\n])\n\s+(?=-)(?!- )", " ", text)
    return found


def test_commands_name_options_of_their_verb(texts: dict[str, str]) -> None:
    wrong, seen = [], set()
    for page, text in texts.items():
        for verb, rest in _COMMAND.findall(text):
            if verb in verbs():
                seen.add(verb)
                wrong += [f"{page}: {verb} {option}" for option in unknown(verbs()[verb], rest.split(" # ")[0])]
    assert wrong == []
    assert seen == {*verbs()}


def unknown(parser: argparse.ArgumentParser, words: str) -> list[str]:
    """The options among some words that a verb does not have."""
    there = {name for action in parser._actions for name in action.option_strings}
    return [option for option in _OPTION.findall(words) if option not in there]


def test_an_option_of_another_verb_is_noticed() -> None:
    assert unknown(verbs()["check"], " a b --data d --max-shift 1 --trust-oracle -o gate") == ["--trust-oracle"]


def test_settings_that_are_named_exist(texts: dict[str, str]) -> None:
    named = {name for text in texts.values() for name in _SETTING.findall(text)}
    assert named and named <= all_settings()


def test_python_that_is_named_exists(texts: dict[str, str]) -> None:
    named = {name for text in texts.values() for name in _PYTHON.findall(text)}
    assert len(named) > 10
    named -= {".condition", ".behaviour"}  # what junit.xml calls its test cases
    assert [name for name in sorted(named) if not is_there(name[1:].split("."))] == []


def is_there(parts: list[str]) -> bool:
    """Whether ``diffgen.PARTS`` is a module or something in one."""
    place, path = importlib.import_module("diffgen"), "diffgen"
    for part in parts:
        path = f"{path}.{part}"
        if not hasattr(place, part):
            try:
                importlib.import_module(path)
            except ModuleNotFoundError:
                return False
        place = getattr(place, part)
    return True
