"""Options made from settings: names, choices, ranges and help come from the fields (:mod:`diffgen.config.schema`).

``--help`` shows the common ones, ``--help-all`` every one, and ``--set NAME=VALUE`` reaches every setting.
"""

from __future__ import annotations

import argparse
import dataclasses
import textwrap
from collections.abc import Collection, Iterable
from typing import Any, get_args, get_origin

from diffgen.config import MAX_MODELS, CheckConfig, CompareConfig, applied, roles
from diffgen.config.layers import Layer, assignment, merged, nested
from diffgen.config.parts import with_path
from diffgen.config.schema import Setting, every_setting
from diffgen.errors import UserError

_WIDTH = 100
_OF_MODELS = ("models.", "preprocessing.", "opening.", "remote.", *(f"{role}-" for role in roles(MAX_MODELS).lower()))


class Options:
    """The options of one verb that set settings.

    Attributes:
        kind: the class of its settings, which ``--set`` reaches; None: there is no ``--set``.
    """

    def __init__(self, parser: argparse.ArgumentParser, kind: Any = None) -> None:
        self.parser, self.kind = parser, kind
        self._whole: list[tuple[argparse.Action, str]] = []
        self._keys: list[str] = []
        parser.add_argument(
            "--help-all", action=_HelpAll, nargs=0, default=argparse.SUPPRESS, options=self, help="show every option"
        )
        if kind is not None:
            example = "search.population=200" if kind in (CompareConfig, CheckConfig) else "gan.width=32"
            parser.add_argument(
                "--set",
                dest="assignments",
                action="append",
                metavar="NAME=VALUE",
                help=f"any setting that --help-all names, as in {example}",
            )

    def add(self, group: Any, settings: Iterable[Setting], *, prefix: str = "", shown: bool = True) -> None:
        """Add the options of some settings to a group.

        Args:
            settings: those without an option are passed over.
            prefix: in front of the name of every option, and of where its value is kept.
            shown: whether the common ones are in ``--help``, and all of them in ``--help-all``.
        """
        for each in settings:
            if each.option is None:
                continue
            action = group.add_argument(
                f"--{prefix}{each.option.removeprefix('--')}", dest=f"{prefix}{each.key}", **_form(each)
            )
            if not shown:
                action.help = argparse.SUPPRESS
            elif not each.common:
                self.rare(action)
            elif each.brief:
                self.shorten(action, str(_form(dataclasses.replace(each, about=each.brief))["help"]))
            if not prefix:
                self._keys.append(each.key)

    def rare(self, action: argparse.Action) -> None:
        """Show an option in ``--help-all`` alone."""
        self.shorten(action, argparse.SUPPRESS)

    def shorten(self, action: argparse.Action, brief: str) -> None:
        """Say less of an option in ``--help`` than in ``--help-all``."""
        self._whole.append((action, str(action.help)))
        action.help = brief

    def layer(self, arguments: argparse.Namespace, keys: Collection[str]) -> Layer:
        """What the options say of these settings, and ``--set`` of all.

        Raises:
            UserError: what ``--set`` was given is not understood or not known.
        """
        given = {key: value for key in keys if (value := getattr(arguments, key, None)) is not None}
        said = [assignment(text, self.kind) for text in getattr(arguments, "assignments", None) or ()]
        return merged(nested(with_path(given)), *said)

    def settings(self, arguments: argparse.Namespace) -> Layer:
        """What the options say of the settings of ``kind``."""
        keys = {each.key for each in every_setting(self.kind)} if self.kind is not None else set()
        return self.layer(arguments, [key for key in self._keys if key in keys])

    def reveal(self) -> None:
        """Have the parser's help show every option, and all that there is to say of it."""
        for action, text in self._whole:
            action.help = text

    def show_all(self) -> None:
        """Print the help with every option, and every setting that has none."""
        self.reveal()
        self.parser.print_help()
        others = [each for each in every_setting(self.kind) if each.option is None] if self.kind is not None else []
        if self.kind in (CompareConfig, CheckConfig):
            # torch is imported only where it is needed
            from diffgen.comparison.requirements import part_lines, settings_of_parts

            for option, lines in part_lines().items():
                print(f"\nnames for {option}:")
                for name, line in lines.items():
                    print(textwrap.fill(f"{name:<15} {line}", _WIDTH, initial_indent="  ", subsequent_indent=" " * 18))
            others += [each for kind in settings_of_parts() for each in every_setting(kind)]
        if others:
            print("\nsettings without an option, for --set and files:")
        for each in others:
            print(f"  {each.key}{f'={_shown(each.default)}' if each.default is not None else ''}")
            about = f"{each.about} {_range(each)}".strip()
            print(textwrap.fill(about, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6))

    def refuse_beside_resume(self, arguments: argparse.Namespace, what: str, allowed: Collection[str]) -> None:
        """See that nothing stands beside ``--resume`` that would be passed over; how models are opened may.

        Args:
            arguments: parsed; an option that was not given is None or False.
            what: "A run" or "A check".
            allowed: names of options that may stand there as well.

        Raises:
            UserError: something else does.
        """
        of_models = {action.dest for action in self.parser._actions if action.dest.startswith(_OF_MODELS)}
        option = self.passed_over(arguments, {*allowed, *of_models})
        if option:
            raise UserError(
                f"{what} that is resumed keeps what it was started with; leave {option} out (--resume goes only with "
                "other places of models and --data, how models are opened, -q, -v and --json)."
            )

    def passed_over(self, arguments: argparse.Namespace, allowed: Collection[str]) -> str:
        """An option or argument that was given and is not among the allowed names, as the user writes it; or nothing.

        Args:
            arguments: parsed; an option that was not given is None or False, an argument that was not None or empty.
        """
        for action in self.parser._actions:
            value = getattr(arguments, action.dest, None)
            if action.dest not in allowed and value is not None and value is not False and value != []:
                return str(action.metavar) if not action.option_strings else max(action.option_strings, key=len)
        return ""


def add_settings(group: Any, kind: Any, names: Collection[str] = ()) -> None:
    """The options of all settings of a class, or of some by name, each of them in ``--help``."""
    for each in every_setting(kind):
        if each.option is not None and (not names or each.key in names):
            group.add_argument(
                each.option, dest=each.key, **_form(dataclasses.replace(each, about=each.brief or each.about))
            )


def settings_from(arguments: argparse.Namespace, kind: Any) -> Any:
    """A class's settings as :func:`add_settings`'s options say, else by default. UserError if one cannot be."""
    said = {each.key: getattr(arguments, each.key, None) for each in every_setting(kind)}
    given = nested({key: value for key, value in said.items() if value is not None})
    return applied(kind(), given.get(kind.__table__, {}) if kind.__table__ else given)


class _HelpAll(argparse.Action):
    def __init__(self, *args: Any, options: Options, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.shows = options

    def __call__(self, parser: argparse.ArgumentParser, *rest: Any) -> None:
        self.shows.show_all()
        parser.exit()


class _Numbers(argparse.Action):
    """Numbers with spaces or commas between them."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any) -> None:
        numbers = [_number(part) for word in values for part in word.removesuffix(",").split(",")]
        setattr(namespace, self.dest, numbers)


def _form(each: Setting) -> dict[str, Any]:
    """How argparse takes a setting; numbers are left to the settings' own checks, which know the range."""
    text = _as_help(each.about).replace("%", "%%")
    if each.kind is bool:
        action = argparse.BooleanOptionalAction if each.optional or each.default else "store_true"
        return {"action": action, "default": None, "help": text}
    if each.choices and each.metavar is None:
        usual = "" if each.default is None or "(default" in text else f" (default: {each.default})"
        return {"choices": each.choices, "metavar": "|".join(each.choices), "help": f"{text}{usual}"}
    usual = "" if each.default in (None, "") or "default" in text else f" (default: {_shown(each.default)})"
    form: dict[str, Any] = {"metavar": each.metavar, "help": f"{text}{usual}"}
    if get_origin(each.kind) is tuple and get_args(each.kind)[0] is float:
        return {**form, "nargs": "+", "action": _Numbers}
    if each.kind in (int, float):
        form["type"] = _number
    return form


def _as_help(about: str) -> str:
    """A sentence as the other help texts are written: it begins small and ends without a full stop."""
    first = about.split(" ", 1)[0]
    return (about[:1].lower() if first[1:].islower() else about[:1]) + about[1:].removesuffix(".")


def _number(text: str) -> int | float | str:
    """A number, or the text itself, which the check of the setting then refuses or knows to read ("none", "0.5%")."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _range(each: Setting) -> str:
    if each.choices:
        return f"One of {', '.join(each.choices)}."
    if each.bounds is not None:
        return f"{str(each.bounds)[:1].upper()}{str(each.bounds)[1:]}."
    return ""
