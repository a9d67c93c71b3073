"""What several runs of one pair found together: whether a second source is worth its share of the queries.

    python -m benchmarks.together PAIR RUN [RUN ...] [--shared SHARED] [--models MODELS] [--made MADE]

PAIR and the folders are those of benchmarks/recognised.py, whose judge is asked, too; MADE is OUT/models there. Printed
are behaviours of all their triggers: those that the judge recognises, those that the run counts (filters and jury
accept them), and those of both; of each run and of all together.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.judge import Judge
from benchmarks.recognised_cells import jury_says
from benchmarks.recognised_pairs import find_pairs
from diffgen.runs.folder import RunFolder
from diffgen.tasks.classification import behaviours
from diffgen.types import BoolArray, Int64Array

_COLUMNS = ("kinds", "sure", "counted")


@dataclass(frozen=True)
class Found:
    """What a run found.

    Attributes:
        queries: that it made.
        kinds: int64 (N, M + 1), the behaviour of each trigger; the same ones for all runs on the same real images.
        sure, counted: bool (N,): the judge recognises it; filters and jury of the run accept it.
    """

    queries: int
    kinds: Int64Array
    sure: BoolArray
    counted: BoolArray


def found_by(run: Path, judge: Judge) -> Found:
    """Reads a run, and asks the judge about its triggers."""
    folder = RunFolder.open(run)
    table = folder.read_judged()
    table = table[table.confirmed]
    by_jury = jury_says(table)
    return Found(
        folder.results()["queries"],
        behaviours(table.labels, table.known.cells),
        judge.verdict(torch.from_numpy(table.images))[0].numpy(),
        table.valid if by_jury is None else table.valid & by_jury,
    )


def together(runs: Sequence[Found]) -> str:
    """A line of the table."""
    kinds, sure, counted = (np.concatenate([getattr(each, name) for each in runs]) for name in _COLUMNS)
    shown = (len(np.unique(kinds[rows], axis=0)) for rows in (sure, counted, sure & counted))
    return " | ".join(f"{number:,}" for number in (sum(each.queries for each in runs), *shown))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pair", choices=list(find_pairs(Path(), Path(), Path())))
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--models", type=Path, default=Path("pairs"))
    parser.add_argument("--made", type=Path, default=Path("recognised/models"))
    arguments = parser.parse_args()
    pair = find_pairs(arguments.shared, arguments.models, arguments.made)[arguments.pair]()
    judge = pair.judge()
    runs = [found_by(run, judge) for run in arguments.runs]
    print("| runs | queries | by the judge | by the run | by both |\n|---|---:|---:|---:|---:|")
    for name, run in zip(arguments.runs, runs, strict=True):
        print(f"| {name.name} | {together([run])} |")
    if len(runs) > 1:
        print(f"| together | {together(runs)} |")


if __name__ == "__main__":
    main()
