"""What the default search spends its time on: operators, models, filters, jury, and everything else.

    python -m benchmarks.search_shares OUT --shared SHARED --models MODELS [--pairs ...] [--budget 20000q]

SHARED and MODELS are as in benchmarks/recognised.py, whose pairs are compared. Each pair is one ``diffgen compare`` in
this process, whose search, generation by generation, is taken apart by the clock: a second belongs to the innermost
part of PARTS that runs in the thread of the search, however many work for it. What prepares a search and what follows
it is not counted. "Forward" is drawing, models and jury, the one network that judges pictures by default; beside it the
same with the filters. On a GPU (``--words "--device cuda"``) each part is waited for.

The lines go to OUT/shares.jsonl, the table to OUT/shares.md.
"""

from __future__ import annotations

import argparse
import json
import shlex
import threading
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.recognised_cells import command
from benchmarks.recognised_pairs import Pair, find_pairs
from benchmarks.stage_clock import StageClock
from diffgen.cli import main as diffgen
from diffgen.features.cells import Cells
from diffgen.features.jury import Recogniser
from diffgen.filters import FilterPipeline
from diffgen.runs.folder import RunFolder
from diffgen.search.asking import Asking
from diffgen.search.behaviours import Behaviours
from diffgen.search.diversity import Diversity
from diffgen.search.loop import SearchLoop
from diffgen.search.screen import Screen
from diffgen.search.seed_finds import SeedFinds
from diffgen.sources.seeds import SeedsSource

PAIRS = ("optimizer", "resnet20-32")
_REST = "all else"
# part -> the methods whose time it is
PARTS: dict[str, tuple[tuple[type, str], ...]] = {
    "operators": ((SeedsSource, "draw"), (SeedsSource, "previews")),
    "models": ((Asking, "about"),),
    "jury": ((Recogniser, "read"),),
    "filters": ((FilterPipeline, "violation"),),
    "cells": ((Cells, "assign"),),
    "near-duplicates and behaviours": ((Behaviours, "add"), (SeedFinds, "alike"), (SeedFinds, "learn")),
    "clusters": ((Diversity, "update"),),
    "forest": ((Screen, "_fit"), (Screen, "best")),
    _REST: ((SearchLoop, "generation"),),
}
FORWARD = ("operators", "models", "jury")


class Parts:
    """Takes the search apart while it is entered; ``seconds`` are those of each part."""

    def __init__(self) -> None:
        self._clock = StageClock((0.0, 0.0))
        self._before: list[tuple[type, str, Any]] = []
        self._inside = False

    @property
    def seconds(self) -> dict[str, float]:
        """By the clock."""
        return {name: self._clock.spent[name][0] for name in PARTS}

    def __enter__(self) -> Parts:
        for part, (owner, name) in ((part, each) for part, methods in PARTS.items() for each in methods):
            self._before.append((owner, name, owner.__dict__[name]))
            setattr(owner, name, self._timed(part, owner.__dict__[name]))
        return self

    def __exit__(self, *_: object) -> None:
        for owner, name, method in self._before:
            setattr(owner, name, method)

    def _timed(self, part: str, method: Any) -> Any:
        def timed(*arguments: Any, **named: Any) -> Any:
            if (part != _REST and not self._inside) or threading.current_thread() is not threading.main_thread():
                return method(*arguments, **named)
            self._hear("started", part)
            try:
                return method(*arguments, **named)
            finally:
                self._hear("ended", part)

        return timed

    def _hear(self, change: str, part: str) -> None:
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()  # what a part has sent to a GPU is its own
        now = time.perf_counter()
        self._clock.hear(change, part, (now, now))
        if part == _REST:
            self._inside = change == "started"


def measure(pair: Pair, options: argparse.Namespace) -> dict[str, Any]:
    """One search. RuntimeError if the command failed."""
    output = options.out / "runs" / pair.name
    arguments = command(pair, shlex.split(options.words), budget=options.budget, seed=options.seed, output=output)
    with Parts() as parts:
        code = diffgen(arguments[arguments.index("compare") :])
    if code:
        raise RuntimeError(f"diffgen compare of {pair.name} ended with exit code {code}.")
    return {"pair": pair.name, "queries": RunFolder.open(output).results()["queries"], "seconds": parts.seconds}


def table(lines: list[dict[str, Any]]) -> str:
    """A row a part, a column a pair: per cent of the search."""
    heads = [f"{line['pair']}, {line['queries']:,} queries" for line in lines]
    rows = [f"| | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]

    def row(name: str, parts: tuple[str, ...]) -> None:
        shares = [sum(line["seconds"][part] for part in parts) / sum(line["seconds"].values()) for line in lines]
        rows.append(f"| {name} | {' | '.join(f'{share:.1%}' for share in shares)} |")

    for part in PARTS:
        row(part, (part,))
    row("**forward: operators, models, jury**", FORWARD)
    row("**forward and filters**", (*FORWARD, "filters"))
    rates = [f"{line['queries'] / sum(line['seconds'].values()):,.0f}" for line in lines]
    return "\n".join([*rows, f"| queries a second | {' | '.join(rates)} |"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--models", type=Path, default=Path("pairs"), help="OUT of benchmarks.pairs")
    parser.add_argument("--pairs", nargs="+", default=list(PAIRS), metavar="PAIR")
    parser.add_argument("--budget", default="20000q")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--words", default="", help="further words for every command line")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.out.mkdir(parents=True, exist_ok=True)
    makers = find_pairs(options.shared, options.models, options.out / "models")
    if unknown := sorted(set(options.pairs) - set(makers)):
        parser.error(f"there is no pair {unknown[0]}; there are {', '.join(makers)}")
    lines = [measure(makers[name](), options) for name in options.pairs]
    (options.out / "shares.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    page = table(lines)
    (options.out / "shares.md").write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
