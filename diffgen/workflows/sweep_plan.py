"""What a sweep compares, as its TOML file says it.

::

    output = "sweeps/first"              # folder of the sweep; beside the file, unless the path is whole
    techniques = ["diffgan", "dflare"]
    seeds = [1, 2, 3]
    budgets = ["20000q"]
    [[pairs]]
    name = "lenet"
    models = ["a.pt", "b.onnx"]
    data = "digits"
    [settings.search]                    # like a configuration of 'diffgen compare'
    population = 200
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from diffgen.comparison.settings_file import data_path, settle
from diffgen.config import CompareConfig, is_address
from diffgen.config.layers import Layer, located, merged, normal
from diffgen.errors import UserError, did_you_mean
from diffgen.home import expanded
from diffgen.runs.opening import read_toml

_KEYS = ("output", "techniques", "seeds", "budgets", "pairs", "settings")
_PAIR = ("name", "models", "data")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}")
LARGEST = 100_000  # cells


@dataclass(frozen=True)
class Cell:
    """One comparison of a sweep.

    Attributes:
        pair: name of the pair of models.
        models: files or addresses.
        data: where the real images are.
    """

    pair: str
    models: tuple[str, ...]
    data: str
    technique: str
    seed: int
    budget: str
    settings: Layer

    @property
    def name(self) -> str:
        """Of its run folder."""
        return f"{self.pair}-{self.technique}-{self.budget.replace(',', '+')}-{self.seed}"

    def config(self) -> CompareConfig:
        """All settings. UserError for a value that cannot be."""
        file = merged(self.settings, {"technique": self.technique})
        config, _, _ = settle(CompareConfig(), file, {"seed": self.seed, "budget": self.budget})
        return config


@dataclass(frozen=True)
class Plan:
    """A sweep.

    Attributes:
        cells: its comparisons, in the order in which they are begun: all with the first seed, then all with the second.
    """

    output: Path
    cells: tuple[Cell, ...]


def read_plan(path: str | Path) -> Plan:
    """Read the file of a sweep.

    Raises:
        UserError: it cannot be read, has a key that is not known, or a value that cannot be.
    """
    file = Path(path)
    values = read_toml(file, "The sweep")
    try:
        return _plan(values, file.parent)
    except UserError as error:
        raise UserError(f"The sweep {path} cannot be used: {error}") from error


def _plan(values: Mapping[str, Any], folder: Path) -> Plan:
    _check_keys(values, _KEYS)
    pairs = values.get("pairs")
    if not isinstance(pairs, list) or not pairs:
        raise UserError("There are no pairs of models; write a table [[pairs]] with name, models and data for each.")
    settings = located(normal(_table(values.get("settings", {}), "settings")), folder)
    axes = (
        [_pair(each, folder) for each in pairs],
        _several(values, "techniques", str, ["diffgan"]),
        _several(values, "budgets", str, ["60s"]),
        _several(values, "seeds", int, [0]),
    )
    count = len(axes[0]) * len(axes[1]) * len(axes[2]) * len(axes[3])
    if count > LARGEST:
        raise UserError(f"It has {count:,} comparisons; keep to {LARGEST:,}.")
    # seed by seed: where a sweep is broken off every technique has as many, and what makes a machine slower meets all
    cells = tuple(
        Cell(name, models, data, technique, seed, budget, settings)
        for seed, (name, models, data), technique, budget in product(axes[3], *axes[:3])
    )
    names = [each.name for each in cells]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"Two of its comparisons would be written to {twice}; name every pair, and nothing twice.")
    output = values.get("output")
    if not isinstance(output, str) or not output:
        raise UserError('There is no folder for it; write output = "sweeps/mine".')
    # every setting is looked at before anything runs; only the techniques and budgets differ in what they can be
    for cell in {(each.technique, each.budget, each.seed): each for each in cells}.values():
        cell.config()
    return Plan((folder / expanded(output)).absolute(), cells)


def _check_keys(values: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in values:
        if name not in known:
            raise UserError(f"The key {name!r} is not known; {did_you_mean(name, known)}")


def _table(value: Any, name: str) -> Layer:
    if not isinstance(value, dict):
        raise UserError(f"The key {name} is {value!r}; make it a table [{name}].")
    for taken in ("technique", "seed", "budget", "models"):
        if taken in value:
            raise UserError(f"The key {name}.{taken} says what the sweep itself goes through; leave it out there.")
    return merged(value)


def _several(values: Mapping[str, Any], name: str, kind: type[Any], usual: list[Any]) -> list[Any]:
    found = values.get(name, usual)
    if not isinstance(found, list) or not found or any(type(each) is not kind for each in found):
        what = "whole numbers, such as [1, 2, 3]" if kind is int else "texts in quotation marks"
        raise UserError(f"The key {name} is {found!r}; give a list of {what}.")
    return found


def _pair(value: Any, folder: Path) -> tuple[str, tuple[str, ...], str]:
    if not isinstance(value, dict):
        raise UserError(f"A pair is {value!r}; write a table [[pairs]] with name, models and data.")
    _check_keys(value, _PAIR)
    name, models, data = (value.get(each) for each in _PAIR)
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise UserError(f"The name of a pair is {name!r}; give letters, digits, dots and dashes.")
    if not isinstance(models, list) or len(models) < 2 or not all(isinstance(each, str) for each in models):
        raise UserError(f"The models of the pair {name} are {models!r}; give a list of two files, or more.")
    if not isinstance(data, str):
        raise UserError(f"The data of the pair {name} are {data!r}; name a folder, a file, or 'digits'.")
    places = tuple(each if is_address(each) else str((folder / expanded(each)).absolute()) for each in models)
    return name, places, data_path(data, folder)
