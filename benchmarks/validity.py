"""The filters asked after the search, in it as a constraint, or as a third objective; and chains of filters.

    python -m benchmarks.validity DATA A B OUT [--queries 20000] [--seeds 3] [--ways WAY ...] > table.md

DATA is a folder with a training and a test split, A and B are models. Every way gets the same queries and the same
seeds; the runs lie in OUT and are not made again. ``recognised`` are the valid triggers in which the judge
(benchmarks/judge.py), which no filter asks, sees some class. Times are seconds of processor time of the whole
``diffgen compare`` with GAN and filters in the cache, without asking again one image at a time. The second table is the
share of the triggers that the filters accept, by eighths of the queries: whether the search drifts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch

from benchmarks.judge import Judge, judge_for
from benchmarks.quick import trained_as_asked
from benchmarks.ways import print_rows, ways_from
from diffgen.config import Budget, CompareConfig, FilterConfig, replace
from diffgen.data import load
from diffgen.runs.files import write_json
from diffgen.runs.folder import RunFolder
from diffgen.search.warm_up import warm_up
from diffgen.workflows.compare import compare
from diffgen.workflows.valid_triggers import read_valid_triggers

_DEFAULT = ("discriminator", "reconstruction", "ssim")  # of version 0.1
#: name -> (when the filters are asked, which)
WAYS: dict[str, tuple[Literal["post", "constraint", "objective"], tuple[str, ...]]] = {
    "post": ("post", _DEFAULT),
    "constraint": ("constraint", _DEFAULT),
    "objective": ("objective", _DEFAULT),
    "constraint, with neighbors": ("constraint", (*_DEFAULT, "neighbors")),
    "constraint, with jury": ("constraint", (*_DEFAULT, "jury")),
    "constraint, default now": ("constraint", ("neighbors", "jury", "ssim")),
    "constraint, neighbors for discriminator": ("constraint", ("reconstruction", "ssim", "neighbors")),
}
EIGHTHS = 8
FIGURES = ("triggers", "valid", "recognised", "share", "distinct", "behaviours", "label_pairs", "seconds")


def accepted_by_eighths(run: RunFolder, queries: int) -> list[float]:
    """Shares of the triggers that the filters accept, in 0..1, NaN where there is no trigger."""
    query, accepted = run.read_triggers().query, run.read_arrays("verdicts")["rejected_by"] < 0
    eighth = np.minimum((query - 1) * EIGHTHS // queries, EIGHTHS - 1)
    return [float(accepted[eighth == part].mean()) if (eighth == part).any() else np.nan for part in range(EIGHTHS)]


def measure(way: str, seed: int, arguments: argparse.Namespace, judge: Judge) -> dict[str, Any]:
    """The figures of one run, which is made if it is not there."""
    folder = arguments.out / f"{way.replace(' ', '-').replace(',', '')}-{seed}"
    figures = folder / "validity.json"
    if not figures.is_file():
        when, names = WAYS[way]
        config = CompareConfig(
            budget=Budget(queries=arguments.queries),
            seed=seed,
            device="cpu",
            verify_limit=0,
            filters=FilterConfig(names=names),
        )
        config = replace(config, search=replace(config.search, validity=when))
        config = trained_as_asked(config, quick=arguments.quick)
        warm_up(config.search)
        started = time.process_time()
        compare(arguments.a, arguments.b, data=arguments.data, config=config, output=folder, force=True)
        write_json(figures, {"seconds": time.process_time() - started})
    run = RunFolder.open(folder)
    results = run.results()
    recognised = judge.recognised(torch.from_numpy(read_valid_triggers(run).images))
    return {
        "triggers": results["triggers"],
        "valid": results["valid_triggers"],
        "recognised": int(recognised.sum()),
        "share": 100 * float(recognised.float().mean()),
        "distinct": results["distinct_valid_triggers"],
        "behaviours": results["behaviours"],
        "label_pairs": results["label_pairs"],
        "seconds": json.loads(figures.read_text(encoding="utf-8"))["seconds"],
        "by_eighths": accepted_by_eighths(run, arguments.queries),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table as Markdown: mean over the seeds, lowest to highest in brackets."""
    arguments = ways_from(argv, about=__doc__, ways=WAYS)
    judge = judge_for(load(f"{arguments.data}:train"), load(f"{arguments.data}:test"))
    found = {way: [measure(way, seed, arguments, judge) for seed in range(arguments.seeds)] for way in arguments.ways}
    print(
        "| filters asked | triggers | valid | recognised among them | share | valid without near-duplicates |", end=""
    )
    print(" behaviours | label pairs | s |\n|---|" + "---:|" * len(FIGURES))
    print_rows(found, {**dict.fromkeys(FIGURES, ""), "share": " %"})
    print("\n| filters asked |" + "".join(f" {part + 1} |" for part in range(EIGHTHS)) + "\n|---|" + "---:|" * EIGHTHS)
    for way, runs in found.items():
        shares = np.mean([run["by_eighths"] for run in runs], axis=0)
        print(f"| {way} | {' | '.join(f'{share:.0%}' for share in shares)} |")


if __name__ == "__main__":
    main()
