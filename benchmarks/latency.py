"""What a user waits for: the whole command, stage by stage, from an empty cache and from a full one.

    python -m benchmarks.latency OUT --shared SHARED --models MODELS [--pairs ...] [--budget 60s] [--threads 1]

SHARED and MODELS are as in benchmarks/recognised.py, whose pairs are compared. Each pair is one ``diffgen compare`` in
a process of its own with an empty cache, and once more with the cache that the first left behind. The seconds of the
clock and of the processor (all threads, and the processes of isolated models) are shared out among the stages that
the command names to its progress bar; what lies between two stages is "otherwise", and what comes before the first
event "start". A second table says how much memory the command's process took at most in each, and the processes of
isolated models beside it. First finds are those of the run's own table: the search's clock at the query that found
them.

Lines of OUT/latency.jsonl are not measured again; the table is OUT/latency.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.recognised_cells import command, jury_says
from benchmarks.recognised_pairs import Pair, find_pairs
from benchmarks.stage_clock import OTHERWISE, START
from diffgen.runs.cache import ENVIRONMENT
from diffgen.runs.folder import RunFolder

PAIRS = ("digits", "optimizer", "fashion", "resnet20-32", "sign-digits")
SEARCH = "Searching for disagreements"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--models", type=Path, default=Path("pairs"), help="OUT of benchmarks.pairs")
    parser.add_argument("--pairs", nargs="+", default=list(PAIRS))
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--words", default="", help="further words for every command line")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    makers = find_pairs(options.shared, options.models, options.out / "models")
    kept = options.out / "latency.jsonl"
    for name in options.pairs:
        pair = makers[name]()
        for condition in ("cold", "warm"):
            done = _lines(kept)
            if any((each["pair"], each["condition"]) == (name, condition) for each in done):
                continue
            found = measure(pair, condition, options)
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
    page = table(_lines(kept))
    (options.out / "latency.md").write_text(page, encoding="utf-8")
    print(page)


def _lines(kept: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()] if kept.is_file() else []


def measure(pair: Pair, condition: str, options: argparse.Namespace) -> dict[str, Any]:
    """One command in a process of its own. RuntimeError if the command failed."""
    output, cache = options.out / "runs" / f"{pair.name}-{condition}", options.out / "caches" / pair.name
    if condition == "cold" and cache.exists():
        raise RuntimeError(f"{cache} is of a measurement that broke off; delete it.")
    arguments = command(pair, shlex.split(options.words), budget=options.budget, seed=0, output=output)
    words = arguments[arguments.index("compare") :]
    environment = {**os.environ, **{name: str(options.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}}
    environment[ENVIRONMENT] = str(cache.resolve())
    timed = options.out / f"{pair.name}-{condition}.json"
    child = [sys.executable, "-m", "benchmarks.stage_clock", str(timed), str(time.time()), *words]
    done = subprocess.run(child, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with exit code {done.returncode}.")
    found: dict[str, Any] = json.loads(timed.read_text(encoding="utf-8"))
    return {"pair": pair.name, "condition": condition, **found, **first_finds(output, found["began"][SEARCH])}


def first_finds(run: Path, began: list[float]) -> dict[str, Any]:
    """Seconds of the clock from the command to the first trigger, and to the first that the run's jury recognises."""
    folder = RunFolder.open(run)
    results, table = folder.results(), folder.read_judged()
    history = results["history"]
    recognised = jury_says(table)
    which = {"first_trigger": table.confirmed}
    if recognised is not None:
        which["first_recognised"] = table.confirmed & table.valid & recognised
    found: dict[str, Any] = {"queries": results["queries"], "triggers": int(table.confirmed.sum())}
    for name, rows in which.items():
        asked = table.query[rows]
        found[name] = None
        if len(asked):
            found[name] = began[0] + float(np.interp(asked.min(), history["queries"], history["seconds"]))
    return found


def table(lines: list[dict[str, Any]]) -> str:
    """The page's table: a row a stage, two columns a measurement."""
    if not lines:
        return ""
    names = sorted({name for line in lines for name in line["spent"]}, key=lambda name: _order(name, lines))
    heads = [f"{line['pair']}, {line['condition']}" for line in lines]
    head = [f"| | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    rows = list(head)
    for name in names:
        cells = [_cell(line["spent"].get(name)) for line in lines]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    totals = [np.sum(list(line["spent"].values()), axis=0) for line in lines]
    rows.append(f"| **all** | {' | '.join(_cell(list(each)) for each in totals)} |")
    begins = [_cell(line["began"][SEARCH]) for line in lines]
    for stage in ("real", "variations"):
        answered = [_cell(line["began"].get(f"answer: {stage}")) for line in lines]
        rows.append(f"| **answer after ({stage})** | {' | '.join(answered)} |")
    rows.append(f"| **the search begins after** | {' | '.join(begins)} |")
    for key, text in (("first_trigger", "first trigger after"), ("first_recognised", "first recognised trigger after")):
        cells = ["-" if line.get(key) is None else f"{line[key]:.1f}" for line in lines]
        rows.append(f"| **{text}** | {' | '.join(cells)} |")
    for key in ("queries", "triggers"):
        counts = [f"{line[key]:,}" for line in lines]
        rows.append(f"| {key} | {' | '.join(counts)} |")
    memory = list(head)
    for name in names:
        cells = [_mebibytes(line["highest"].get(name)) for line in lines]
        memory.append(f"| {name} | {' | '.join(cells)} |")
    most = [np.max(list(line["highest"].values()), axis=0) for line in lines]
    memory.append(f"| **highest** | {' | '.join(_mebibytes(list(each)) for each in most)} |")
    titles = "Seconds of the clock, in brackets of the processor.", "MiB at most: the command + what isolates models."
    return "\n".join([titles[0], "", *rows, "", titles[1], "", *memory, ""])


def _order(name: str, lines: list[dict[str, Any]]) -> float:
    if name in (START, OTHERWISE):
        return -2.0 if name == START else -1.0
    return max(line["began"].get(name, [0.0])[0] for line in lines)


def _cell(both: list[float] | None) -> str:
    return "" if both is None else f"{both[0]:.1f} ({both[1]:.1f})"


def _mebibytes(both: list[float] | None) -> str:
    return "" if both is None else f"{both[0]:,.0f} + {both[1]:,.0f}"


if __name__ == "__main__":
    main()
