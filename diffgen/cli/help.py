"""Help texts: what a verb does, examples, then its options, on one screen."""

from __future__ import annotations

import argparse
import itertools
import shutil
import textwrap
from typing import Any, NoReturn

from diffgen.errors import UserError

_WIDEST = 100


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence with exit code 2, like every other error of the user.

    Attributes:
        examples: commands, each with what it is for after two spaces or more.
    """

    def __init__(self, *, description: str = "", examples: str = "", **others: Any) -> None:
        self.about, self.examples = description.strip(), textwrap.dedent(examples).strip()
        text = f"{self.about}\n\nexamples:\n{textwrap.indent(self.examples, '  ')}" if self.examples else self.about
        super().__init__(description=text, formatter_class=_Formatter, **others)
        self.color = False  # what Python 3.14 colours by itself; stdout of diffgen holds text alone

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message[:1].upper()}{message[1:]}; see '{self.prog} --help'.")

    def format_help(self) -> str:
        if self.usage is None and self._subparsers is None:
            words = [positional(each) for each in self._get_positional_actions()]
            words += [
                f" {each.option_strings[-1]} {each.metavar}" for each in self._get_optional_actions() if each.required
            ]
            self.usage = f"%(prog)s{''.join(words)} [options]"
        return super().format_help()


def positional(action: argparse.Action) -> str:
    """How the usage of a verb shows one of its arguments."""
    name = action.metavar if isinstance(action.metavar, str) else "|".join(map(str, action.choices or (action.dest,)))
    return {"?": f" [{name}]", "*": f" [{name} ...]"}.get(str(action.nargs), f" {name}")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Wraps paragraphs, leaves indented lines as they are, and names the value of an option once."""

    def __init__(self, prog: str, **others: Any) -> None:
        width = min(shutil.get_terminal_size().columns, _WIDEST)
        super().__init__(prog, **{"max_help_position": 34, "width": width, **others})

    def _format_text(self, text: str) -> str:
        shown = super()._format_text(text)
        return shown if self._current_section.parent is None else f"{shown.rstrip()}\n"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines: list[str] = []
        for prose, block in itertools.groupby(text.splitlines(), lambda line: bool(line) and not line.startswith(" ")):
            kept = list(block)
            lines += textwrap.wrap(" ".join(kept), width - len(indent)) if prose else kept
        return "\n".join(f"{indent}{line}".rstrip() for line in lines)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        shown = super()._format_action_invocation(action)
        if not action.option_strings or action.nargs == 0:
            return shown
        *others, longest = action.option_strings
        return ", ".join([*others, f"{longest} {self._format_args(action, action.dest.upper())}"])
