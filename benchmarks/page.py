"""How long the page takes to open, filter and show a run with many triggers, and what memory that needs.

    python -m benchmarks.page RUN --triggers 100000

A run is made from one that is there (benchmarks/enlarged.py). What is timed is all that a click
computes; drawing is the browser's. Seconds are of the processor, in one process after the other's import.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.enlarged import enlarged
from diffgen import api
from diffgen.ui.finds import matrix

T = TypeVar("T")
_PAGE = 60


def main() -> None:
    """Make the run, time it, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN", help="a run that came to its end, to make a large one of")
    parser.add_argument("--triggers", type=int, default=100_000, metavar="N", help="default: 100000")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        large = enlarged(arguments.run, Path(folder) / "large", arguments.triggers)
        measure(large)


def measure(run: Path) -> None:
    """Print how long each step takes."""
    _ = api.browse, api.Watcher  # what is imported once is not what a click waits for
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print("| | processor, s |\n|---|---:|")
    finds = timed("open", lambda: api.browse(run))
    every = timed("all pictures", lambda: finds.numbers(api.TriggerQuery("all")))
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


def _narrow(finds: api.RunTriggers) -> api.TriggerQuery:
    return api.TriggerQuery("valid", verdict=finds.verdicts[0], operator=next(iter(finds.operators)), label=3)


def timed(what: str, work: Callable[[], T]) -> T:
    """What the work gives; a row says how long it took."""
    started = time.process_time()
    found = work()
    print(f"| {what} | {time.process_time() - started:.2f} |", flush=True)
    return found


if __name__ == "__main__":
    main()
