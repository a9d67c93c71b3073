"""What several runs of one pair found together: whether a second source is worth its share of the queries.

    python -m benchmarks.together PAIR RUN [RUN ...] [--shared SHARED] [--models MODELS] [--made MADE]

PAIR and the folders are those of benchmarks/recognised.py, whose judge is asked, too; MADE is OUT/models there. Printed
are, by the judge and by judge and run, behaviours and the share of the recognised triggers that repeat an earlier one;
of all runs together, and with one run of each alone in front of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.judge import Judge, judge_for
from benchmarks.recognised_cells import jury_says
from benchmarks.recognised_pairs import find_pairs
from diffgen.config import FilterConfig
from diffgen.metrics.near_duplicates import near_duplicate_of
from diffgen.runs.folder import RunFolder
from diffgen.tasks.classification import behaviours
from diffgen.types import Int64Array, UInt8Array


@dataclass(frozen=True)
class Found:
    """What a run found that the judge recognises.

    Attributes:
        queries: that it made.
        images, labels: uint8 (N, C, H, W) and int64 (N, M).
        cells: int64 (N,); the same ones for all runs on the same real images.
        counted: bool (N,): filters and jury of the run accept it.
    """

    queries: int
    images: UInt8Array
    labels: Int64Array
    cells: Int64Array
    counted: np.ndarray


def found_by(run: Path, judge: Judge) -> Found:
    """Reads a run, and asks the judge about its triggers."""
    folder = RunFolder.open(run)
    table = folder.read_judged()
    table = table[table.confirmed]
    sure = judge.verdict(torch.from_numpy(table.images))[0].numpy()
    by_jury = jury_says(table)
    counted = table.valid if by_jury is None else table.valid & by_jury
    cells = np.asarray(table.known.cells)[sure]
    return Found(folder.results()["queries"], table.images[sure], table.labels[sure], cells, counted[sure])


def together(runs: Sequence[Found]) -> str:
    """A line of the table."""
    images, labels, cells, counted = (
        np.concatenate([getattr(each, name) for each in runs]) for name in ("images", "labels", "cells", "counted")
    )
    cell_texts = [f"{sum(each.queries for each in runs):,}"]
    for rows in (np.arange(len(images)), np.flatnonzero(counted)):
        first = near_duplicate_of(images[rows], labels[rows], threshold=FilterConfig().near_duplicate)
        repeated = float((first != np.arange(len(rows))).mean()) if len(rows) else 0.0
        kinds = behaviours(labels[rows], cells[rows])
        cell_texts += [f"{len(np.unique(kinds, axis=0)):,}", f"{repeated:.0%}"]
    return " | ".join(cell_texts)


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
    judge = judge_for(pair.training_images(), pair.images())
    runs = [found_by(run, judge) for run in arguments.runs]
    print("| runs | queries | by the judge | near-duplicates | by judge and run | near-duplicates |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, run in zip(arguments.runs, runs, strict=True):
        print(f"| {name.name} | {together([run])} |")
    if len(runs) > 1:
        print(f"| together | {together(runs)} |")


if __name__ == "__main__":
    main()
