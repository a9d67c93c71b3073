"""Changes values of a run folder at random; every verb that reads it says a sentence or works, never a traceback.

    python -m benchmarks.fuzz_runs RUN --seconds 300

Copies of a run; one value of manifest.json, results.json, config.toml or an .npz changed
in each. What escapes as anything but an error of the user is printed with its seed; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
import tomllib
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from diffgen.comparison.named_settings import stored_settings
from diffgen.errors import DiffgenError
from diffgen.runs.folder import RunFolder
from diffgen.workflows.export import export
from diffgen.workflows.label import read_valid_triggers
from diffgen.workflows.listing import draw_report

_VALUES: tuple[Any, ...] = (
    *(None, True, "", "x", "../../x", "\0", "\ud800", [], {}, [[]], [1, "a"], {"a": 1}),
    *(0, -1, 1, 99, 2**31, 2**63, 10**30, -(10**30), 0.5, 1e308, float("nan"), float("inf"), -float("inf")),
)
_TEXTS = ("manifest.json", "results.json", "config.toml")
VERBS: dict[str, Callable[[Path], object]] = {
    "report": draw_report,
    "export": lambda run: export(run, run.parent / "out", everything=True),
    "finds": lambda run: read_valid_triggers(RunFolder.open(run)),
    "settings": lambda run: stored_settings(RunFolder.open(run)),
}


def damage(run: Path, rng: np.random.Generator) -> str:
    """Change one value in a run folder; returns which."""
    arrays = sorted(file.relative_to(run).as_posix() for file in run.rglob("*.npz") if "checkpoint" not in file.name)
    name = str(rng.choice([*_TEXTS, *_TEXTS, *arrays]))
    return f"{name}: {_in_arrays(run / name, rng) if name.endswith('.npz') else _in_text(run / name, rng)}"


def _in_text(file: Path, rng: np.random.Generator) -> str:
    toml = file.suffix == ".toml"
    values: Any = tomllib.loads(file.read_text()) if toml else json.loads(file.read_text())
    place, path = values, ""
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[int(rng.integers(len(keys)))]
        path += f".{key}"
        if not isinstance(place[key], dict | list) or not place[key] or rng.random() < 0.2:
            break
        place = place[key]
    if rng.random() < 0.1:
        del place[key]
        path += " removed"
    else:
        place[key] = _VALUES[int(rng.integers(len(_VALUES)))]
        path += f" = {place[key]!r}"
    try:
        file.write_text(tomli_w.dumps(values) if toml else json.dumps(values))
    except (TypeError, ValueError):  # TOML has no null and no such text
        return "nothing"
    return path


def _in_arrays(file: Path, rng: np.random.Generator) -> str:
    with np.load(file) as stored:
        arrays = dict(stored)
    name = str(rng.choice(sorted(arrays)))
    array = arrays[name]
    kind = str(rng.choice(["missing", "short", "type", "axes", "value", "empty"]))
    if kind == "missing":
        del arrays[name]
    elif kind == "type":
        arrays[name] = array.astype(str(rng.choice(["float64", "int8", "uint64", "U4", "bool", "complex64", ">f4"])))
    elif kind == "value" and array.size:
        changed = array.copy()
        limits = [np.nan, np.inf, -1e30] if array.dtype.kind == "f" else [np.iinfo(array.dtype).max, 0, 99]
        changed.flat[int(rng.integers(array.size))] = limits[int(rng.integers(3))]
        arrays[name] = changed
    else:
        arrays[name] = {"short": array[:-1], "axes": array[None], "empty": array[:0]}.get(kind, array)
    np.savez(file, **arrays)
    return f"{name} {kind}"


def attempt(run: Path, seed: int) -> list[str]:
    """Damage a copy of a run, and ask all verbs about it; returns what escaped."""
    with tempfile.TemporaryDirectory(prefix="fuzz-runs-") as place:
        copy = Path(shutil.copytree(run, Path(place) / "run"))
        what, escaped = damage(copy, np.random.default_rng(seed)), []
        for verb, ask in VERBS.items():
            try:
                ask(copy)
            except DiffgenError:
                continue
            except Exception:
                escaped.append(f"seed {seed}, {what}, {verb}:\n{traceback.format_exc(limit=-3)}")
        return escaped


def main(argv: list[str] | None = None) -> int:
    """Go on for some seconds; 1 when something escaped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("run", type=Path, metavar="RUN", help="a run that came to its end; it is not changed")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    until, seed, escaped = time.monotonic() + arguments.seconds, arguments.seed, 0
    while time.monotonic() < until:
        for each in attempt(arguments.run, seed):
            print(each, flush=True)
            escaped += 1
        seed += 1
    print(f"{seed - arguments.seed} runs damaged, {escaped} tracebacks")
    return int(escaped > 0)


if __name__ == "__main__":
    raise SystemExit(main())
