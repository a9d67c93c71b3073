"""How long the page takes to open, filter and show a run with many triggers, and what memory that needs.

    python -m benchmarks.page RUN --triggers 100000

A run is made from one that is there: its triggers again and again, each a little noisier, in random cells and with
near-duplicates of their own. What is timed is all that a click computes; drawing is the browser's. Seconds are of the
processor, in one process after the other's import.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from diffgen import api
from diffgen.features.cells import CELLS
from diffgen.runs.folder import RunFolder
from diffgen.runs.triggers import TriggerTable
from diffgen.ui.draw.matrix import matrix

T = TypeVar("T")
_PART, _PAGE = 2048, 60


def main() -> None:
    """Make the run, time it, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN", help="a run that came to its end, to make a large one of")
    parser.add_argument("--triggers", type=int, default=100_000, metavar="N", help="default: 100000")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        large = enlarged(arguments.run, Path(folder) / "large", arguments.triggers)
        measure(large)


def enlarged(source: Path, target: Path, count: int) -> Path:
    """A run of ``count`` triggers, each like one of the source."""
    shutil.copytree(source, target)
    for name in ("shrunk.npz", "labels.npz"):
        (target / name).unlink(missing_ok=True)
    table, folder, random = RunFolder.open(source).read_judged(), RunFolder.open(target), np.random.default_rng(0)
    rows, queries = random.integers(0, len(table), count), np.sort(random.integers(1, 4 * count, count))
    shutil.rmtree(target / "triggers")
    folder.make_folder("triggers")
    folder.save_manifest(parts=[])
    for start in range(0, count, _PART):
        part = table[rows[start : start + _PART]]
        noisy = part.images.astype(np.int64) + random.integers(-9, 10, part.images.shape)
        made = TriggerTable.of(np.clip(noisy, 0, 255).astype(np.uint8), part.probabilities)
        kept = {name: getattr(part, name) for name in ("divergence", "diversity", "generation", "genes", "seeds")}
        kept |= {"recipes": part.recipes, "classes": part.classes, "query": queries[start : start + _PART]}
        folder.write_part(replace(made, **kept))
    verdicts = table.known[rows]
    repeats = np.where(verdicts.near_duplicate_of < 0, verdicts.near_duplicate_of, np.arange(count))
    verdicts = replace(verdicts, cells=random.integers(0, CELLS, count), near_duplicate_of=repeats)
    folder.write_arrays("verdicts", verdicts.as_arrays())
    figures = json.loads((target / "results.json").read_text(encoding="utf-8"))
    (target / "results.json").write_text(json.dumps({**figures, "triggers": count}), encoding="utf-8")
    return target


def measure(run: Path) -> None:
    """Print how long each step takes."""
    _ = api.browse, api.Watcher  # what is imported once is not what a click waits for
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print("| | processor, s |\n|---|---:|")
    finds = timed("open", lambda: api.browse(run))
    every = timed("all pictures", lambda: finds.numbers(api.Wanted("all")))
    timed("filter by verdict, operator and label", lambda: finds.numbers(_narrow(finds)))
    timed("behaviours", lambda: finds.behaviours(every))
    timed("matrix", lambda: matrix(finds.labels(every), finds.class_names, (0, 1)))
    watcher = timed("watch: first look", lambda: api.Watcher(run))
    timed("watch: figures and curves", watcher.look)
    places = np.linspace(0, len(every) - 1, min(_PAGE, len(every))).astype(int)
    timed(f"{_PAGE} pictures from everywhere", lambda: watcher.images(every[places].tolist()))
    timed(f"{_PAGE} pictures beside each other", lambda: watcher.images(every[:_PAGE].tolist()))
    timed("one picture with everything", lambda: finds.find(int(every[-1])))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"\n{len(finds):,} triggers; memory grew by {grown:.0f} MiB.")


def _narrow(finds: api.Finds) -> api.Wanted:
    return api.Wanted("valid", verdict=finds.verdicts[0], operator=next(iter(finds.operators)), label=3)


def timed(what: str, work: Callable[[], T]) -> T:
    """What the work gives; a row says how long it took."""
    started = time.process_time()
    found = work()
    print(f"| {what} | {time.process_time() - started:.2f} |", flush=True)
    return found


if __name__ == "__main__":
    main()
