"""The pages of the command line: every verb with its examples and options, made from its parser."""

from __future__ import annotations

import argparse
import functools
import re
import textwrap

from diffgen.cli import build_parser
from diffgen.cli.help import Parser, positional
from docs.tools.cells import cell, prose, sentence

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
