"""Settings from a TOML file, a preset and whatever else is said, settled into one comparison or check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diffgen.config import CheckConfig, CompareConfig, SettingError, applied
from diffgen.config.layers import Layer, located, located_path, merged, normal
from diffgen.config.schema import every_setting, fields_of, unknown
from diffgen.errors import UserError
from diffgen.runs.opening import read_toml

# what a file may say besides settings: where images come from and where results go
JOB = ("data", "output", "store")


@dataclass(frozen=True)
class SettingsFile:
    """What a file says.

    Attributes:
        settings: values of settings, tables as dicts; only what the file names.
        job: where data, output and store are.
    """

    settings: Layer = field(default_factory=dict)
    job: dict[str, str] = field(default_factory=dict)


def read_settings_file(path: str | Path, kind: type[Any] = CompareConfig) -> SettingsFile:
    """Read a file of settings; relative paths in it are taken from its folder.

    A check's file has the settings of its comparison and those of the check beside each other.

    Raises:
        UserError: it cannot be read, is no TOML, has a key that is not known, or a value that it cannot have.
    """
    file = Path(path)
    values = normal(read_toml(file, "The configuration"))
    try:
        job = {name: _place(name, values.pop(name), file.parent) for name in JOB if name in values}
        known = _known(kind)
        for name in values:
            if name not in known:
                raise _unknown(name, kind, known)
        settings = located(values, file.parent)
        own, compare = parts(settings)
        if kind is CheckConfig:
            applied(CheckConfig(), own)
        config = applied(CompareConfig(), compare)
        if config.search.techniques or config.source.families or config.filters.filters:
            # torch is imported only where it is needed
            from diffgen.comparison.requirements import check_own_settings

            check_own_settings(config, settled=False)
    except SettingError as error:
        raise UserError(f"In the configuration {path}, the key {error.key} {error.problem}") from error
    except UserError as error:
        raise UserError(f"The configuration {path} cannot be used: {error}") from error
    return SettingsFile(settings, job)


def parts(settings: Mapping[str, Any]) -> tuple[Layer, Layer]:
    """The settings of a check alone, and those of its comparison."""
    names = fields_of(CompareConfig)
    own = {name: value for name, value in settings.items() if name not in names}
    return own, {name: value for name, value in settings.items() if name in names}


def settle(
    defaults: CompareConfig, file: Mapping[str, Any], said: Mapping[str, Any]
) -> tuple[CompareConfig, CompareConfig, str]:
    """The settings of a comparison, and what they would be if nothing but technique and preset were named.

    Defaults, then the preset, then the file, then what else is said. A preset that is said brings its whole search;
    what the file says of the search is then left out. What it brings for the GAN is a default like others.

    Args:
        defaults: below everything else.
        said: tables of options, or of names in Python.

    Returns:
        the settings, those without ``file`` and ``said``, and a warning or nothing.

    Raises:
        UserError: a value that cannot be, or a technique or preset that is not known.
    """
    # torch and pymoo are imported only now: wrong usage and --help answer at once
    config = applied(defaults, merged(file, said))
    from diffgen.comparison.requirements import with_own_settings
    from diffgen.techniques import preset

    chosen = preset(config.technique, config.preset)
    base = chosen.under(defaults, merged(file, said))
    named, warning = applied(defaults, file), ""
    if "search" in file and (config.technique, config.preset) != (named.technique, named.preset):
        file = {name: value for name, value in file.items() if name != "search"}
        warning = f"The preset {config.preset} brings its own search; that of the configuration file is left out."
    return with_own_settings(applied(base, merged(file, said))), base, warning


def load_settings(path: str | Path | None = None, **said: Any) -> CompareConfig:
    """The settings of a comparison as a file gives them, or the defaults, with others put over them by their names.

    >>> load_settings("mine.toml", seed=8, budget="20000q")  # doctest: +SKIP
    >>> load_settings(search={"population": 200}).search.population
    200

    Raises:
        UserError: see :func:`read_settings_file` and :func:`settle`.
    """
    file = {} if path is None else read_settings_file(path).settings
    config, _, _ = settle(CompareConfig(), file, normal(said))
    return config


def data_path(value: str, folder: Path) -> str:
    """``digits`` and ``torchvision:MNIST`` are names; what exists is a path, also one half of it (``FOLDER:test``)."""
    place, colon, half = value.rpartition(":")
    if (folder / value).exists():
        return str((folder / value).absolute())
    if place and (folder / place).exists():
        return f"{(folder / place).absolute()}{colon}{half}"
    return value


def _place(name: str, value: Any, folder: Path) -> str:
    if not isinstance(value, str):
        raise SettingError(name, f'is {value!r}; give text in quotation marks ("...").')
    located_path(name, value, folder)
    try:
        return data_path(value, folder) if name == "data" else located_path(name, value, folder)
    except OSError as error:
        raise SettingError(name, f"is {value[:40]!r}, which is not a path ({error.strerror}).") from error


def _known(kind: type[Any]) -> list[str]:
    own = [name for name in fields_of(kind) if name != "compare"]
    return [*own, *fields_of(CompareConfig)] if kind is CheckConfig else own


def _unknown(name: str, kind: type[Any], known: list[str]) -> SettingError:
    """A key that is the name of an option is told the setting's."""
    option = f"--{name.replace('_', '-')}"
    for each in every_setting(kind):
        if each.option == option:
            *tables, last = each.key.split(".")
            place = f"{last} in the table [{'.'.join(tables)}]"
            return SettingError(name, f"is an option of the command line; in a file, write {place}.")
    return unknown(name, [*known, *JOB])
