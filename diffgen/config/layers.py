"""Settings as several places give them, as plain nested tables that are put over each other in order of rank.

Defaults, then a preset, then a file, then options: :func:`merged` joins tables, and
:func:`diffgen.config.plain.applied` puts the outcome over the defaults.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from diffgen.config.budget import Budget
from diffgen.config.models import is_address
from diffgen.config.parts import FILTER_PRESETS
from diffgen.config.plain import to_dict
from diffgen.config.schema import (
    NONE,
    SettingError,
    every_setting,
    fields_of,
    list_class,
    open_tables,
    table_class,
    unknown,
)

Layer = dict[str, Any]

_PATHS = (
    "gan_file",
    "oracle",
    "jury",
    "generator.file",
    "generator.discriminator",
    "generator.encoder",
    "source.diffusers.folder",
    "filters.learned_from",
    "models.path",
    "models.class_names_file",
    "models.label_map",
)
_ASSIGNMENT = re.compile(r"\s*([\w.-]+)\s*=(.*)", re.DOTALL)


def merged(*layers: Mapping[str, Any]) -> Layer:
    """Tables put over each other, the later over the earlier."""
    made: Layer = {}
    for layer in layers:
        for name, value in layer.items():
            below = made.get(name)
            made[name] = merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return made


def flattened(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Full names of what is in nested tables, and the values."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def nested(values: Mapping[str, Any]) -> Layer:
    """Tables made of full names: ``{"gan.steps": 5}`` becomes ``{"gan": {"steps": 5}}``."""
    made: Layer = {}
    for key, value in values.items():
        *tables, last = key.split(".")
        place = made
        for table in tables:
            place = place.setdefault(table, {})
        place[last] = value
    return made


def normal(values: Mapping[str, Any]) -> Layer:
    """A table with the names and forms of today: short forms are spelled out, dashes in names become underscores.

    The short forms are the name of a preset or a list for ``filters``, a file for ``generator``, and a path for a
    model.
    """
    made = {name.replace("-", "_"): _with_underscores(value) for name, value in values.items()}
    if isinstance(made.get("filters"), str):
        made["filters"] = filter_chain(made["filters"])
    if isinstance(made.get("generator"), str):
        made["generator"] = {"file": made["generator"]}
    if isinstance(made.get("models"), list):
        made["models"] = [{"path": each} if isinstance(each, str) else each for each in made["models"]]
    return made


def filter_chain(text: str) -> Layer:
    """What the name of a preset of filters, or a list of names, settles: for a preset its thresholds too."""
    preset = FILTER_PRESETS.get(text)
    if preset is not None:
        return {"names": preset.names, **preset.filters}
    return {"names": tuple(name.strip() for name in text.split(","))}


def assignment(text: str, kind: Any) -> Layer:
    """``search.population=200`` as a table; the value is written as in TOML, or is plain text.

    Raises:
        SettingError: it is no such text, or the setting is not known.
    """
    match = _ASSIGNMENT.fullmatch(text)
    if match is None:
        raise SettingError(repr(text), "is not understood; write NAME=VALUE, as in search.population=200.")
    key, written = match[1].replace("-", "_"), match[2].strip()
    known = [each.key for each in every_setting(kind)]
    if key not in known and not _in_open_table(key, kind):
        raise unknown(key, known)
    try:
        value = tomllib.loads(f"value = {written}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        value = written
    return nested({key: value})


def _in_open_table(key: str, kind: Any) -> bool:
    """Whether a full name is in a table whose class is declared further up, and is checked there."""
    inner = [table for name in fields_of(kind) if (table := table_class(kind, name)) is not None]
    place, _, rest = key.partition(f"{kind.__table__}.") if kind.__table__ else ("", "", key)
    name, dot, _ = rest.partition(".")
    here = not place and bool(dot) and name not in fields_of(kind) and open_tables(kind) is not None
    return here or any(_in_open_table(key, each) for each in inner)


def located(values: Mapping[str, Any], folder: Path, key: str = "") -> Layer:
    """The same with relative paths taken from a folder.

    Raises:
        SettingError: what should be a path cannot be one.
    """

    def of(name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return located(value, folder, f"{name}.")
        if isinstance(value, list):
            return [of(name, each) if isinstance(each, Mapping) else each for each in value]
        return located_path(name, value, folder) if name in _PATHS and isinstance(value, str) else value

    return {name: of(f"{key}{name}", value) for name, value in values.items()}


def located_path(key: str, value: str, folder: Path) -> str:
    """A path as seen from a folder; an address as it is.

    Raises:
        SettingError: it cannot be a path.
    """
    if is_address(value):
        return value
    if "\0" in value:
        raise SettingError(key, f"is {value!r}, which is not a path; give one that is.")
    try:
        return str((folder / value).absolute())
    except (OSError, ValueError) as error:
        raise SettingError(
            key, f"is {value!r}, which is not a path ({error}); give that of a file or a folder."
        ) from error


def written(config: Any, base: Any) -> Layer:
    """Settings as a table that gives them again when it is put over ``base``; None is written out where it matters."""
    values = to_dict(config)
    for name in fields_of(type(config)):
        value, below = getattr(config, name), getattr(base, name)
        if table_class(type(config), name) is not None:
            values[name] = written(value, below)
        elif list_class(type(config), name) is not None:
            values[name] = [_differing(written(each, type(each)()), type(each)()) for each in value]
            if not values[name]:
                del values[name]
        elif value is None and below is not None:
            values[name] = NONE
    return {name: value for name, value in values.items() if value != {}}


def _differing(values: Layer, usual: Any) -> Layer:
    """What of a table is not as usual."""
    made: Layer = {}
    for name, value in values.items():
        default = getattr(usual, name)
        if is_dataclass(default) and not isinstance(default, Budget):
            value = _differing(value, default)
            if value:
                made[name] = value
        elif (tuple(value) if isinstance(value, list) else value) != default:
            made[name] = value
    return made


def _with_underscores(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name.replace("-", "_"): _with_underscores(each) for name, each in value.items()}
    return [_with_underscores(each) for each in value] if isinstance(value, list) else value
