"""Pages of the reference that are made from the program: every verb's options, every setting, the Python functions."""

from __future__ import annotations

import argparse
import functools
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import diffgen
from diffgen.cli import build_parser
from diffgen.cli.help import Parser, positional
from diffgen.config import (
    CheckConfig,
    CompareConfig,
    LabelConfig,
    ModelSpec,
    QuantizeConfig,
    SelectorConfig,
    TrainGanConfig,
    TrainingSetConfig,
)
from diffgen.config.schema import Setting, every_setting
from diffgen.filters import FILTERS
from diffgen.sources.registry import SOURCES
from diffgen.techniques import TECHNIQUES


def cell(text: str) -> str:
    """Text inside backticks in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def prose(text: str) -> str:
    """A sentence in a cell of a table: options and names of files in it become code."""
    plain = cell(text).replace("<", "&lt;").replace("*", "\\*")
    return re.sub(r"(?<![\w`-])(--[a-z][\w-]*|\[[a-z.]+\])(?![\w(])", r"`\1`", sentence(plain))


def sentence(text: str) -> str:
    """With a large first letter, unless the first word is a value."""
    first = text.split(" ", 1)[0]
    is_word = (first[1:].isalpha() and first[1:].islower()) or first in ("a", "A")
    return f"{text[:1].upper()}{text[1:]}" if is_word else text


_OWN_MODEL = re.compile(r"--(no-)?[a-z]-(?=.)")
_INDENTED = re.compile(r"(?:^  .*(?:\n|$))+", re.MULTILINE)


@functools.cache
def verbs() -> dict[str, Parser]:
    """The parser of each verb, with every option shown, in the order of ``diffgen --help``."""
    (choice,) = (each for each in build_parser()._actions if isinstance(each, argparse._SubParsersAction))
    for parser in choice.choices.values():
        for action in parser._actions:
            if (of := getattr(action, "shows", None)) is not None:
                of.reveal()
    return dict(choice.choices)


def commands_page() -> str:
    """The list of all verbs, with a sentence about each, and examples."""
    (choice,) = (each for each in build_parser()._actions if isinstance(each, argparse._SubParsersAction))
    about = {each.dest: sentence(str(each.help)) for each in choice._choices_actions}
    commands = [re.split(r"\s{2,}", line, maxsplit=1) for line in build_parser().examples.splitlines()]
    lines = ["# Commands", "", "`diffgen COMMAND --help` shows the common options, `--help-all` every one.", ""]
    lines += ["| | |", "|---|---|", *(f"| [diffgen {verb}]({verb}.md) | {about[verb]} |" for verb in verbs()), ""]
    lines += ["## Examples", "", "| | |", "|---|---|"]
    lines += [f"| `{cell(each[0])}` | {sentence(each[1]) if len(each) > 1 else ''} |" for each in commands]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *verbs(), "```", ""])


def command_page(verb: str) -> str:
    """The page of one verb: what it does, examples, every option."""
    parser = verbs()[verb]
    rest = (parser.epilog or "").strip()
    arguments = "".join(map(positional, parser._get_positional_actions()))
    lines = [
        f"# diffgen {verb}",
        "",
        parser.about,
        "",
        "```text",
        f"diffgen {verb}{arguments} [options]",
        "```",
        "",
    ]
    if parser.examples:
        commands = [re.split(r"\s{2,}", line, maxsplit=1) for line in parser.examples.splitlines()]
        lines += ["## Examples", "", "```sh"]
        lines += [f"{command[0]}    # {command[1]}" if len(command) > 1 else command[0] for command in commands]
        lines += ["```", ""]
    if rest:
        lines += [_INDENTED.sub(lambda block: f"\n```text\n{textwrap.dedent(block[0]).strip()}\n```\n", rest), ""]
    for group in parser._action_groups:
        rows = [_option_row(each) for each in group._group_actions if each.help != argparse.SUPPRESS]
        if rows:
            title = "Arguments" if group.title == "positional arguments" else sentence(str(group.title))
            lines += [f"## {title}", ""]
            lines += [" ".join(group.description.split()), ""] if group.description else []
            lines += ["| | |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def options_of(verb: str) -> set[str]:
    """Every option of a verb that is meant for users; of those that exist for each model once too, the one for all."""
    actions = verbs()[verb]._actions
    told = {name for action in actions if action.help != argparse.SUPPRESS for name in action.option_strings}
    hidden = {name for action in actions for name in action.option_strings} - told
    return told | {_OWN_MODEL.sub(r"--\1", name) for name in hidden if _OWN_MODEL.match(name)}


def _option_row(action: argparse.Action) -> str:
    takes = action.nargs != 0 and not isinstance(action, argparse.BooleanOptionalAction)
    value = ""
    if takes and action.option_strings:
        metavar = action.metavar[0] if isinstance(action.metavar, tuple) else action.metavar
        value = f" {metavar or '|'.join(map(str, action.choices or ())) or action.dest.upper()}"
    names = [f"`{cell(name + value)}`" for name in action.option_strings] or [f"`{cell(positional(action).strip())}`"]
    about = (action.help or "").replace("%%", "%").replace("%(default)s", str(action.default))
    return f"| {', '.join(names)} | {prose(about)} |"


def settings_page() -> str:
    """Every setting: its name in files and for ``--set``, its option, default, range and meaning."""
    lines = [
        "# Every setting",
        "",
        "Made from the settings themselves. The name is the one in configuration files (`population = 200` under",
        "`[search]`) and of `--set` (`--set search.population=200`); the option, where there is one, does the same.",
        "[How files, options and defaults go together](../../howto/settings.md).",
        "",
    ]
    seen: set[str] = set()
    for title, about, kinds in _parts():
        rows: dict[str, list[Setting]] = {}
        for each in (each for kind in kinds for each in every_setting(kind)):
            if each.key not in seen:
                rows.setdefault(each.key.rpartition(".")[0], []).append(each)
                seen.add(each.key)
        if rows:
            lines += [f"## {title}", "", about, ""]
        for table, settings in rows.items():
            lines += [f"### `[{table}]`" if table else "### At the top of a file", ""]
            lines += ["| setting, option | what it is |", "|---|---|"]
            lines += [*map(_setting_row, settings), ""]
    return "\n".join(lines)


def all_settings() -> set[str]:
    """The names of all settings."""
    return {each.key for _, _, kinds in _parts() for kind in kinds for each in every_setting(kind)}


def _parts() -> tuple[tuple[str, str, tuple[Any, ...]], ...]:
    return (
        ("Comparisons", "Of `diffgen compare`, and of the search of `diffgen check`.", (CompareConfig,)),
        ("Each model", "In files `[[models]]`, once for each; `[models.preprocessing]` below it.", (ModelSpec,)),
        ("Single techniques", "They count where the technique is in use.", TECHNIQUES.settings_classes()),
        ("Single sources", "They count where the source is in use.", SOURCES.settings_classes()),
        ("Single filters", "They count where the filter is in use.", FILTERS.settings_classes()),
        ("Checks", "Of `diffgen check` alone.", (CheckConfig,)),
        ("Other verbs", "Of `diffgen train-gan`.", (TrainGanConfig,)),
        ("Quantizing", "Of `diffgen quantize`.", (QuantizeConfig,)),
        ("Labels", "Of `diffgen label`.", (LabelConfig,)),
        ("The selector", "Of `diffgen select`.", (SelectorConfig,)),
        ("Pictures to train with", "Of `diffgen export --for-training`.", (TrainingSetConfig,)),
    )


def _setting_row(each: Setting) -> str:
    names = f"`{each.key.rpartition('.')[2]}`" + (f"<br>`{each.option}`" if each.option else "")
    values = f"one of {', '.join(f'`{choice}`' for choice in each.choices)}" if each.choices else str(each.bounds or "")
    values = "`true` or `false`" if each.kind is bool else values
    if each.optional:
        none = "auto" if "auto" in (each.metavar or "") else "none"
        values = f"{values}{', or ' if values else 'or '}`{none}`"
    told = [prose(each.about)]
    if each.default not in (None, (), ""):
        told.append(f"Default `{cell(_value(each.default))}`" + (f"; {values}." if values else "."))
    elif values:
        told.append(f"{sentence(values) if values[0].isalpha() else values}.")
    return f"| {names} | {' '.join(told)} |"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_value, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


_VERBS_FIRST = ("compare", "resume", "check", "resume_check", "accept")
_EXTENSION = [
    "Filter",
    "Technique",
    "TechniqueContext",
    "Preset",
    "Proposal",
    "Answers",
    "Origins",
    "RealImages",
    "Source",
    "Space",
    "Box",
]
_EXTENSION += ["NormalShell", "WithClass", "Scorer"]


def python_groups() -> dict[str, list[str]]:
    """Every public name of ``diffgen`` under the heading where it stands."""
    groups: dict[str, list[str]] = {
        "Functions": [*_VERBS_FIRST],
        "What they return": [],
        "Settings": [],
        "While something runs": [],
        "Techniques, filters and generators of your own": [*_EXTENSION],
        "Errors": [],
        "Other": [],
    }
    placed = {name for names in groups.values() for name in names}
    for name in dir(diffgen):
        if name.startswith("_") or name in placed:
            continue
        value = getattr(diffgen, name)
        if inspect.isfunction(value):
            group = "Functions"
        elif inspect.isclass(value) and issubclass(value, BaseException):
            group = "Errors"
        elif hasattr(value, "__table__"):
            group = "Settings"
        elif getattr(value, "__module__", "") == "diffgen.events":
            group = "While something runs"
        elif inspect.isclass(value) and name.endswith(("Result", "Inspection", "Examination")):
            group = "What they return"
        else:
            group = "Other"
        groups[group].append(name)
    return groups


def python_page() -> str:
    """The public functions and classes, from their docstrings."""
    lines = [
        "# Python",
        "",
        "`import diffgen` gives everything on this page. All values after the first are named.",
        "",
    ]
    for title, names in python_groups().items():
        if not names:
            continue
        lines += [f"## {title}", ""]
        for name in names:
            value = getattr(diffgen, name)
            kind = "function" if inspect.isfunction(value) else "class" if inspect.isclass(value) else "data"
            lines += ["```{eval-rst}", f".. auto{kind}:: diffgen.{name}", *_class_options(title, kind), "```", ""]
    lines += ["## In test suites", "", "```{eval-rst}", ".. autofunction:: diffgen.testing.assert_no_regression", "```"]
    return "\n".join([*lines, ""])


def _class_options(title: str, kind: str) -> Iterator[str]:
    if kind == "class" and title in ("Techniques, filters and generators of your own", "Other"):
        yield "   :members:"
    if kind == "class" and title in ("Settings", "What they return", "While something runs"):
        yield "   :class-doc-from: class"


FOLDER = "generated"


def write_pages(reference: Path) -> None:
    """Write all pages below ``reference``/generated; files that would stay as they are keep their times."""
    pages = {f"{verb}.md": command_page(verb) for verb in verbs()}
    pages |= {"commands.md": commands_page(), "settings.md": settings_page(), "python.md": python_page()}
    folder = reference / FOLDER
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.md"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        file = folder / name
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
