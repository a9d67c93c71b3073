"""Memory of an archive of a million MNIST triggers, and what checkpoints cost.

    python -m benchmarks.archive_size --triggers 1000000 --seconds 60

First an archive alone: as many different 28x28 images of noise as asked for (nothing of them can be shared or packed),
added in batches of 5,000, in a process that has torch and pymoo loaded as a search has. Then a search on the fixed
networks into a run folder for so many seconds, with the time that checkpoints and parts take. The last line of stdout
is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

# as the command line does; before torch is imported
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch

from benchmarks.fixed_networks import make_networks
from benchmarks.measured_search import MeasuredSearch
from diffgen.comparison.checkpoints import Checkpointer, History
from diffgen.comparison.device import resolve_batch_size
from diffgen.config import CompareConfig, to_dict
from diffgen.runs.folder import RunFolder
from diffgen.runs.triggers import TriggerTable
from diffgen.search.archive import Archive
from diffgen.search.diversity.representatives import stratified_rows
from diffgen.techniques import preset

_SHAPE = (1, 28, 28)
_BATCH = 5000
_CPU = torch.device("cpu")


def resident() -> int:
    """Bytes of memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def fill(count: int) -> dict[str, float]:
    """An archive of so many triggers, and what it takes."""
    before = resident()
    rng = np.random.default_rng(0)
    archive = Archive(_SHAPE, sink=lambda _: None)
    seconds = 0.0
    for start in range(0, count, _BATCH):
        rows = min(_BATCH, count - start)
        probabilities = np.zeros((rows, 2, 10), dtype=np.float32)
        probabilities[np.arange(rows), 0, rng.integers(10, size=rows)] = 1
        probabilities[np.arange(rows), 1, rng.integers(10, size=rows)] = 1
        batch = TriggerTable.of(
            rng.integers(0, 256, (rows, *_SHAPE), dtype=np.uint8),
            probabilities,
            divergence=np.ones(rows, dtype=np.float32),
            genes=rng.random((rows, 100), dtype=np.float32),
            query=np.arange(start + 1, start + rows + 1),
        )
        started = time.perf_counter()
        archive.add(batch)
        archive.flush()
        seconds += time.perf_counter() - started
    after = resident()
    started = time.perf_counter()
    stratified_rows(archive.labels(), 1000, rng)
    sampling = time.perf_counter() - started
    started = time.perf_counter()
    archive.digest()
    digest = time.perf_counter() - started
    return {
        "triggers": len(archive),
        "process_gib": round(after / 2**30, 3),
        "archive_gib": round((after - before) / 2**30, 3),
        "microseconds_to_add_one": round(seconds / count * 1e6, 2),
        "seconds_to_sample": round(sampling, 3),
        "seconds_to_digest": round(digest, 3),
    }


class TimedCheckpointer(Checkpointer):
    """Knows how long it took."""

    seconds = 0.0

    def after_generation(self) -> None:
        started = time.perf_counter()
        super().after_generation()
        self.seconds += time.perf_counter() - started


def checkpoints(seconds: float, archived: int) -> dict[str, float]:
    """A search into a run folder, and the share that writing takes."""
    networks = make_networks("lenet5", _CPU)
    search = MeasuredSearch(
        networks,
        preset("diffgan", "default"),
        archived=archived,
        batch_size=resolve_batch_size(None, _CPU),
        device=_CPU,
    )
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", config=to_dict(CompareConfig()), manifest={}, force=False)
        search.archive._sink = run.write_part
        history: History = {name: [] for name in ("seconds", "queries", "triggers")}
        checkpointer = TimedCheckpointer(run, search.technique, search.loop, history)
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            search.generation()
            checkpointer.after_generation()
        elapsed = time.perf_counter() - started
    return {"checkpoint_share": round(checkpointer.seconds / elapsed, 4), "checkpoint_seconds_of": round(elapsed, 1)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triggers", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the search with checkpoints; 0 leaves it out")
    parser.add_argument("--archived", type=int, default=50_000, help="triggers that this search begins with")
    arguments = parser.parse_args()
    figures = fill(arguments.triggers)
    if arguments.seconds:
        figures |= checkpoints(arguments.seconds, arguments.archived)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
