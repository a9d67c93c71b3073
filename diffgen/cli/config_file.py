"""``--config FILE``: the settings of a comparison as TOML, and ``--print-config``.

A file may hold

* every setting of :class:`diffgen.config.CompareConfig`, nested ones in tables (``[gan]``, ``[search]``, ...),
* ``model_a`` and ``model_b``: a path, or a table with ``path`` and the settings of the model,
* every long option of ``diffgen compare`` without its dashes (``data``, ``output``, ``gan-steps``).

The command line wins over the file, the file over the defaults. Relative paths are taken from the file's folder.
"""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

import tomli_w

from diffgen.config import Budget, CompareConfig, is_address, to_dict
from diffgen.config.typed import Problem, checked
from diffgen.errors import UserError
from diffgen.runs.toml_file import read_toml

# what only a command line can say
_NOT_IN_A_FILE = ("help", "config", "print_config", "resume", "accept")
MODELS = ("model_a", "model_b")
_PATHS = (
    *("data", "output", "label_map", "gan_file", "store", *MODELS),
    *("generator_file", "discriminator", "generator.file", "generator.discriminator"),
)
_PLAIN_KEY = re.compile(r"[\w.-]+")
NONE = "none"  # stands for None, which TOML has not


@dataclass(frozen=True)
class ConfigFile:
    """What a file says.

    Attributes:
        settings: values for the fields of CompareConfig, tables as dicts; only what the file names.
        options: values for options of the command line that are no such fields, by the option's ``dest``.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def fill(self, arguments: argparse.Namespace) -> None:
        """Set those options that the command line left out."""
        for dest, value in self.options.items():
            given = getattr(arguments, dest, None)
            if given is None or given is False:  # 0 was given
                setattr(arguments, dest, value)


def read(path: str | Path, parser: argparse.ArgumentParser) -> ConfigFile:
    """Read a configuration file; the parser says which options there are.

    Raises:
        UserError: it cannot be read, is no TOML, has a key that is not known, or a value of another type.
    """
    file = Path(path)
    values = read_toml(file, "The configuration")
    try:
        return _sort_out(values, {a.dest: a for a in parser._actions if a.dest not in _NOT_IN_A_FILE}, file.parent)
    except Problem as problem:
        raise UserError(f"In the configuration {path}, {problem}") from problem


def _sort_out(values: Mapping[str, Any], actions: Mapping[str, argparse.Action], folder: Path) -> ConfigFile:
    hints = get_type_hints(CompareConfig)
    found = ConfigFile()
    for written, value in values.items():
        key = written.replace("-", "_")
        if key in MODELS:
            settings, options = _model(key, value, hints.get(key), folder)
            found.settings.update(settings)
            found.options.update(options)
        elif key in hints:
            if key == "generator" and isinstance(value, str):  # as the option of that name takes it
                value = {"file": value}
            found.settings[key] = _located(key, _setting(key, value, hints[key]), folder)
        elif key in actions:
            found.options[key] = _located(key, _option(written, value, actions[key]), folder)
        else:
            raise _unknown(written, [*hints, *actions, *MODELS])
    return found


def _model(key: str, value: Any, hint: Any, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings and the path of a model, written as a path or as a table."""
    if isinstance(value, str):
        return {}, {key: _located(key, value, folder)}
    if not isinstance(value, dict) or not is_dataclass(hint):
        raise Problem(f"the key {key} is {value!r}; give the path of a model, or a table with its settings.")
    rest = {name: each for name, each in value.items() if name != "path"}
    options = {}
    if "path" in value:
        options[key] = _located(key, checked(f"{key}.path", value["path"], str), folder)
    try:
        return {key: _setting(key, rest, hint)}, options
    except Problem as problem:
        raise Problem(str(problem).replace("; known are ", "; known are path, ", 1)) from None


def _setting(key: str, value: Any, hint: Any) -> Any:
    """A value for a field of a config dataclass; a table becomes a dict of such values."""
    if not is_dataclass(hint) or hint is Budget:
        return checked(key, value, hint)
    if not isinstance(value, dict):
        raise Problem(f"the key {key} is {value!r}, but it has settings of its own; write them in a table [{key}].")
    hints = get_type_hints(hint)
    made = {}
    for written, each in value.items():
        name = written.replace("-", "_")
        if name not in hints:
            raise _unknown(f"{key}.{written}", [f"{key}.{known}" for known in hints])
        made[name] = _setting(f"{key}.{written}", each, hints[name])
    return made


def _option(key: str, value: Any, action: argparse.Action) -> Any:
    """A value for an option of the command line, as its action would have stored it."""
    if action.nargs == 0:
        return checked(key, value, bool)
    many = action.nargs in ("*", "+") or (isinstance(action.nargs, int) and action.nargs > 1)
    if many or isinstance(action, argparse._AppendAction):
        if not isinstance(value, list):
            raise Problem(f"the key {key} is {value!r}; give a list.")
        return [_single(key, each, action) for each in value]
    return _single(key, value, action)


def _single(key: str, value: Any, action: argparse.Action) -> Any:
    if action.type in (int, float, None):
        value = checked(key, value, str if action.type is None else action.type)
    else:
        text = f"{value}" if type(value) in (int, float) else checked(key, value, str)
        try:
            value = action.type(text)  # type: ignore[operator]
        except (argparse.ArgumentTypeError, ValueError, TypeError) as error:
            raise Problem(f"the key {key} is {text!r}, which cannot be ({error}).") from error
    if action.choices is not None and value not in action.choices:
        raise Problem(f"the key {key} is {value!r}; give one of {', '.join(map(str, action.choices))}.")
    return value


def _unknown(key: str, known: list[str]) -> Problem:
    near = difflib.get_close_matches(key.replace("-", "_"), known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(set(known)))}."
    shown = key if _PLAIN_KEY.fullmatch(key) else repr(key)
    return Problem(f"the key {shown} is not known; {hint}")


def _located(key: str, value: Any, folder: Path) -> Any:
    """A path as seen from the file's folder, also in a table; anything else unchanged."""
    if isinstance(value, dict):
        return {name: _located(f"{key}.{name}", each, folder) for name, each in value.items()}
    if key not in _PATHS or not isinstance(value, str):
        return value
    if is_address(value):
        return value
    if "\0" in value:
        raise Problem(f"the key {key} is {value!r}, which is no path; give one that is.")
    try:
        if key == "data":
            return _data_path(value, folder)
        return str((folder / value).absolute())
    except (OSError, ValueError) as error:
        raise Problem(
            f"the key {key} is {value!r}, which is no path ({error}); give that of a file or a folder."
        ) from error


def _data_path(value: str, folder: Path) -> str:
    """``digits`` and ``torchvision:MNIST`` are names; what exists is a path, also one half of it (``FOLDER:test``)."""
    place, colon, half = value.rpartition(":")
    if (folder / value).exists():
        return str((folder / value).absolute())
    if place and (folder / place).exists():
        return f"{(folder / place).absolute()}{colon}{half}"
    return value


# -- settings on settings --------------------------------------------------------------------------------------------


def apply(config: Any, settings: Mapping[str, Any]) -> Any:
    """A config dataclass with some of its fields replaced; dicts go into nested ones."""
    made = {}
    for name, value in settings.items():
        made[name] = apply(getattr(config, name), value) if isinstance(value, dict) else value
    return replace(config, **made)


# -- the way back ----------------------------------------------------------------------------------------------------


def to_toml(config: CompareConfig, base: CompareConfig, arguments: argparse.Namespace) -> str:
    """All settings as a file that gives them again.

    Args:
        config: the settings.
        base: what they are where a file says nothing.
        arguments: where models, data and output are.
    """
    values: dict[str, Any] = {}
    for name in MODELS:
        path = getattr(arguments, name)
        if path is not None:
            values[name] = path if is_address(path) else str(Path(path).absolute())
    if arguments.data is not None:
        values["data"] = _data_path(arguments.data, Path())
    if arguments.output is not None:
        values["output"] = str(Path(arguments.output).absolute())
    for name, setting in _with_none(config, base).items():
        if name in MODELS:
            usual = to_dict(getattr(base, name))
            table = {key: each for key, each in setting.items() if each != usual.get(key)}
            if table:
                values[name] = ({"path": values[name]} if name in values else {}) | table
        elif setting != {}:
            values[name] = setting
    return tomli_w.dumps(values)


def _with_none(config: Any, base: Any) -> dict[str, Any]:
    """The dict of a config dataclass; a None that ``base`` has not is written out."""
    values = to_dict(config)
    for f in fields(config):
        value, default = getattr(config, f.name), getattr(base, f.name)
        if value is None and default is not None:
            values[f.name] = NONE
        elif is_dataclass(value) and not isinstance(value, Budget):
            values[f.name] = _with_none(value, default)
    return values
