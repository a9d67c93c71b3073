"""``diffgen completion``: the script by which a shell completes commands, options and their values."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from diffgen.errors import UserError

SHELLS = ("bash", "zsh")
_EXAMPLES = """\
diffgen completion bash > ~/.local/share/bash-completion/completions/diffgen
diffgen completion zsh > ~/.zsh/completions/_diffgen        a folder of $fpath
eval "$(diffgen completion bash)"                           for this shell alone
"""


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "completion",
        help="completion of commands and options by the shell",
        description="Print a script by which a shell completes diffgen's commands, options and their values.",
        examples=_EXAMPLES,
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that the script is for")


def run(arguments: argparse.Namespace) -> int:
    """Print the script. UserError if the package that writes it is not installed."""
    try:
        import shtab
    except ImportError as error:
        raise UserError(
            "Completion needs the package shtab; install it with pip install 'diffgen[completion]'."
        ) from error
    from diffgen.cli import build_parser

    parser = build_parser()
    for action in _values(parser):
        # nearly all of them are files or folders; where one is not, a file's name does no harm
        action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=arguments.shell))
    return 0


def _values(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All arguments and options of a parser and its verbs that take a value of the user's own."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield from _values(verb)
        elif action.nargs != 0 and not action.choices:
            yield action
