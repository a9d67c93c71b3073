"""The settings that the page asks for: fields made from the schema, the command line they mean, and hints to them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_origin

from markupsafe import Markup

from diffgen.config import CheckConfig, CompareConfig, Limits
from diffgen.config.layers import Layer, assignment, merged, nested
from diffgen.config.named import keys
from diffgen.config.schema import Setting, every_setting, fields_of
from diffgen.ui.pieces import joined, note
from diffgen.ui.place import Place

_SOURCE = "source.family"
# what matters most, in the order of the form; the rest is written as NAME=VALUE
SHOWN = (
    _SOURCE,
    "search.population",
    "search.validity",
    "filters.false_alarm",
    "gan.schedule",
    "until",
    "data_labels",
    "resize",
    "fit",
    "skip_broken",
    "exif",
    "device",
)
# the same for a check, beside its limits
SHOWN_OF_CHECK = ("data_labels", "resize", "fit", "skip_broken", "exif", "device")
Look = Literal["choice", "slider", "number", "switch", "text"]
_SLIDERS: dict[str, tuple[float, float, float]] = {  # ends of use, not of what can be
    "search.population": (10, 2000, 10),
    "filters.false_alarm": (0, 0.2, 0.005),
}


@dataclass(frozen=True)
class Field:
    """One field of the form; ``ends`` are of a slider: low, high, step."""

    setting: Setting
    look: Look
    ends: tuple[float, float, float] = (0, 1, 0.01)

    @property
    def label(self) -> str:
        """Its name for people: that of its option, or ``population``."""
        name = self.setting.option or self.setting.key.rpartition(".")[2]
        return name.removeprefix("--").replace("-", " ").replace("_", " ").replace("gan ", "GAN ")

    @property
    def start(self) -> Any:
        """What it shows first."""
        default = self.setting.default
        if self.look == "text":
            return "" if default is None else str(default)
        return default


@functools.cache
def fields(kind: type[Any] = CompareConfig, keys: Sequence[str] = SHOWN) -> tuple[Field, ...]:
    """The fields of some settings, in that order; those that this version does not have are left out."""
    from diffgen import api

    known = {each.key: each for each in every_setting(kind)}
    if _SOURCE in known and _SOURCE in keys:
        known[_SOURCE] = replace(known[_SOURCE], choices=tuple(api.part_lines()["--source"]))
    return tuple(_field(known[key]) for key in keys if key in known)


def check_fields() -> tuple[Field, ...]:
    """Those of a check beside its limits."""
    return fields(CheckConfig, SHOWN_OF_CHECK)


def limits() -> tuple[Field, ...]:
    """One for each limit of a check."""
    return tuple(Field(each, "text") for each in every_setting(Limits))


def _field(setting: Setting) -> Field:
    if setting.kind is bool:
        return Field(setting, "switch")
    if setting.choices:
        return Field(setting, "choice")
    bounds = setting.bounds
    if setting.key in _SLIDERS:
        return Field(setting, "slider", _SLIDERS[setting.key])
    if setting.kind is float and not setting.optional and bounds and bounds.low == 0 and bounds.high == 1:
        return Field(setting, "slider")
    if setting.kind in (int, float) and not setting.optional and get_origin(setting.kind) is None:
        return Field(setting, "number")
    return Field(setting, "text")


def said(fields: Sequence[Field], values: Sequence[Any]) -> dict[str, Any]:
    """Full name of a setting -> value, of those that are not as usual."""
    found: dict[str, Any] = {}
    for each, value in zip(fields, values, strict=True):
        if value is None or value == "" or value == each.start:
            continue
        found[each.setting.key] = _number(value) if each.setting.kind in (int, float) else value
    return found


def _number(value: Any) -> Any:
    """A number of a field, or what was written there, which the check of the setting then refuses or knows to read."""
    for kind in (int, float):
        try:
            number = kind(value)
        except (TypeError, ValueError, OverflowError):
            continue
        if number == value or isinstance(value, str):
            return number
    return value


def more(text: str, place: Place, kind: type[Any] = CompareConfig) -> list[str]:
    """Lines of NAME=VALUE, checked; a file that one names must be in a folder that the page may read.

    Raises:
        UserError: a line is not understood, a setting is not known, or a file may not be read.
    """
    from diffgen import api

    lines, files = [], api.path_settings()
    for line in filter(None, map(str.strip, (text or "").splitlines())):
        said = assignment(line, kind)
        key, value = next(((each, found) for each in files if (found := _at(said, each)) is not None), ("", None))
        lines.append(f"{key}={place.given(str(value), 'file')}" if key else line)
    return lines


def _at(values: Mapping[str, Any], key: str) -> Any:
    """The value of a full name in nested tables, or None."""
    found: Any = values
    for name in key.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def layer(values: Mapping[str, Any], lines: Sequence[str], kind: type[Any] = CompareConfig) -> Layer:
    """The settings as nested tables, for :func:`diffgen.load_settings`."""
    return merged(nested(dict(values)), *(assignment(line, kind) for line in lines))


def options(values: Mapping[str, Any], lines: Sequence[str], kind: type[Any] = CompareConfig) -> list[str]:
    """The settings as words of the command line."""
    known = {each.key: each for each in every_setting(kind)}
    words: list[str] = []
    for key, value in values.items():
        setting = known[key]
        if setting.kind is bool:
            name = str(setting.option)
            words.append(name if value else name.replace("--", "--no-", 1))
        elif setting.option is not None:
            words += [setting.option, str(value)]
        else:
            words += ["--set", f"{key}={value}"]
    for line in lines:
        words += ["--set", line]
    return words


def python(models: Sequence[str], data: str, output: str, values: Mapping[str, Any], lines: Sequence[str]) -> str:
    """The same comparison as a Python program."""
    options = {key: name for name, key in keys().items()} | {"technique": "technique"}
    given = [*map(repr, models), f"data={data!r}"]
    before = ""
    if not lines and values.keys() <= options.keys():
        given += [f"{options[key]}={value!r}" for key, value in values.items()]
    else:
        named = "".join(f"    {name}={value!r},\n" for name, value in layer(values, lines).items())
        before = f"config = diffgen.load_settings(\n{named})\n"
        given.append("config=config")
    call = "".join(f"    {each},\n" for each in [*given, f"output={output!r}"])
    end = "print(result.distinct_valid_triggers, result.run)\n"
    return f"import diffgen\n\n{before}result = diffgen.compare(\n{call})\n{end}"


def check_settings(values: Mapping[str, Any], lines: Sequence[str]) -> None:
    """See before anything starts that a comparison can have these settings, or raise UserError."""
    from diffgen import api

    api.load_settings(**layer(values, lines))


def check_of_check(values: Mapping[str, Any], lines: Sequence[str]) -> None:
    """The same for a check and its limits. UserError if they cannot be."""
    from diffgen import api
    from diffgen.config import applied

    said = layer(values, lines, CheckConfig)
    of_search = {name: said.pop(name) for name in fields_of(CompareConfig) if name in said}
    applied(CheckConfig(), said)
    api.load_settings(**of_search)


_OPTION = re.compile(r"--[a-z][a-z-]*")


def hint(message: str) -> str:
    """Where the options and commands of a message are found on the page: sentences, or nothing.

    >>> hint("Say --data-labels ignore to check without labels.")
    "On this page: --data-labels is the field 'data labels' under 'More settings'."
    """
    return " ".join(_sentences(message))


def refusal(message: str, tone: str = "bad") -> Markup:
    """A message in a box, and below it where the page has what the message names."""
    return joined([note(message, tone), *map(note, filter(None, [hint(message)]))])


def _sentences(message: str) -> Iterator[str]:
    places = {each.setting.option: (each.label, "More settings") for each in (*fields(), *check_fields())}
    places |= {each.setting.option: (each.label, "Limits") for each in limits()}
    found = [(option, *places[option]) for option in dict.fromkeys(_OPTION.findall(message)) if option in places]
    if found:
        said = ", ".join(f"{option} is the field '{label}' under '{where}'" for option, label, where in found)
        yield f"On this page: {said}."
    if "diffgen inspect" in message:
        yield (
            "What 'diffgen inspect' finds out stands on the tab Run, once the model and the data are named there; "
            "'Feed it like this' on the card of a model has every run feed it so from then on."
        )
