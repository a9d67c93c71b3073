"""One population of seeds and a GAN against each alone, and without its parts: bandit, niches' turns, inversion.

    python -m benchmarks.mixed DATA A B OUT [--queries 20000] [--seeds 3] [--ways WAY ...] > table.md

DATA is a folder with a training and a test split, A and B are models. Every way gets the same queries and the same
seeds; the GAN is there from the beginning (``--gan now``). The runs lie in OUT and are not made again. ``recognised``
are the valid triggers in which the judge (benchmarks/judge.py), which neither search nor filters ask, sees some class;
``behaviours`` are label pair x cell among those. Times are seconds of processor time of a whole ``diffgen compare``
with everything that is trained in the cache, but for the first run of all.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.judge import Judge, judge_for
from benchmarks.quick import trained_as_asked
from benchmarks.ways import print_rows, ways_from
from diffgen.config import Budget, CompareConfig, SearchConfig, SourceConfig
from diffgen.data import load
from diffgen.runs.files import write_json
from diffgen.runs.folder import RunFolder
from diffgen.search.warm_up import warm_up
from diffgen.workflows.compare import compare
from diffgen.workflows.valid_triggers import read_valid_triggers

_MIXED = SourceConfig(family="mixed", gan="now")
#: name -> (source, search)
WAYS: dict[str, tuple[SourceConfig, SearchConfig]] = {
    "mixed": (_MIXED, SearchConfig()),
    "gan": (SourceConfig(family="gan"), SearchConfig()),
    "seeds": (SourceConfig(family="seeds"), SearchConfig()),
    "mixed, equal shares": (_MIXED, SearchConfig(sharing="even")),
    "mixed, not shared out": (_MIXED, SearchConfig(sharing="none")),
    "mixed, no turns of niches": (_MIXED, SearchConfig(niche_parents=0.0)),
    "mixed, no inverted images": (_MIXED, SearchConfig(inverted=0)),
    "seeds, not shared out": (SourceConfig(family="seeds"), SearchConfig(sharing="none")),
}
FIGURES = ("triggers", "valid", "recognised", "behaviours", "all behaviours", "from the GAN", "seconds")


def measure(way: str, seed: int, arguments: argparse.Namespace, judge: Judge) -> dict[str, Any]:
    """The figures of one run, which is made if it is not there."""
    folder = arguments.out / f"{way.replace(' ', '-').replace(',', '')}-{seed}"
    spent = folder / "mixed.json"
    if not spent.is_file():
        source, search = WAYS[way]
        config = CompareConfig(
            budget=Budget(queries=arguments.queries),
            seed=seed,
            device="cpu",
            verify_limit=0,
            source=source,
            search=search,
        )
        warm_up(search)
        started = time.process_time()
        config = trained_as_asked(config, quick=arguments.quick)
        compare(arguments.a, arguments.b, data=arguments.data, config=config, output=folder, force=True)
        write_json(spent, {"seconds": time.process_time() - started})
    run = RunFolder.open(folder)
    results, found = run.results(), read_valid_triggers(run)
    recognised = judge.recognised(torch.from_numpy(found.images)).numpy()
    drawn = np.zeros(len(found), dtype=bool)
    if found.seeds is None or way == "gan":
        drawn[:] = True
    else:
        drawn = found.seeds < 0
    figures = {
        "triggers": results["triggers"],
        "valid": results["valid_triggers"],
        "recognised": int(recognised.sum()),
        "behaviours": len(np.unique(found.behaviours[recognised], axis=0)),
        "all behaviours": results["behaviours"],
        "from the GAN": int((recognised & drawn).sum()),
        "seconds": json.loads(spent.read_text(encoding="utf-8"))["seconds"],
    }
    print(f"<!-- {way}, seed {seed}: {json.dumps(figures)} -->", flush=True)
    return figures


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table as Markdown: mean over the seeds, lowest to highest in brackets."""
    arguments = ways_from(argv, about=__doc__, ways=WAYS)
    judge = judge_for(load(f"{arguments.data}:train"), load(f"{arguments.data}:test"))
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in arguments.ways}
    for seed in range(arguments.seeds):
        for way in arguments.ways:
            found[way].append(measure(way, seed, arguments, judge))
    print("| search | triggers | valid | recognised | behaviours among them | behaviours among valid |", end="")
    print(" of the recognised, from the GAN | s |\n|---|" + "---:|" * len(FIGURES))
    print_rows(found, dict.fromkeys(FIGURES, ""))


if __name__ == "__main__":
    main()
