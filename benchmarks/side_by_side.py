"""What two threads bring: one network after the other with all of torch's, all with one each, and a search with each.

    python -m benchmarks.side_by_side --shared SHARED --models MODELS [--pairs optimizer ...] [--rounds 3]

SHARED and MODELS are as in benchmarks/recognised.py. The networks are those of a data set, trained on the images of the
first pair: domain encoder, jury, auto-encoder. The search is that of ``diffgen compare`` with default settings, from a
cache that is filled before the clock runs; "all" lets it draw and judge with all threads, whatever the size of the
pictures (:func:`diffgen.comparison.technique_run.search_threads`), "one" with one. Every round takes each way once, in
a process of its own.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from benchmarks.recognised_cells import command
from benchmarks.recognised_pairs import Pair, find_pairs
from diffgen.comparison import technique_run
from diffgen.config import FilterConfig
from diffgen.data import load
from diffgen.events import Progress
from diffgen.features import encoder, jury, vae
from diffgen.runs.cache import ENVIRONMENT
from diffgen.runs.folder import RunFolder
from diffgen.side_by_side import SideBySide
from diffgen.threads import torch_threads
from diffgen.types import ImageSet

_SHOWN = 15_000  # images, to each member of a jury on grey images (diffgen.comparison.jury)
_PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}  # as the command line has it
_CPU = torch.device("cpu")
_FILL = "64q"  # of a search that fills the cache


def trainings(images: ImageSet, share: float) -> dict[str, Callable[[], object]]:
    """The networks of a data set by name, each trained when called, for a share of the usual steps."""
    assert images.labels is not None
    real, labels = torch.from_numpy(images.images), torch.from_numpy(images.labels)
    steps = FilterConfig().reconstruction.training_steps
    return {
        "encoder": lambda: encoder.train(real, labels),
        "jury": lambda: jury.train(real, labels, shown=round(_SHOWN * share)),
        "auto-encoder": lambda: vae.train(real, steps=round(steps * share)),
    }


def _silent(train: Callable[[], object], progress: Progress) -> object:
    """Its progress is not shown."""
    del progress
    return train()


def train_all(way: str, images: ImageSet, share: float) -> dict[str, float]:
    """Seconds of the clock that each network takes, or all three side by side; after one update, which imports."""
    networks, found = trainings(images, share), {}
    vae.train(torch.from_numpy(images.images), steps=1)
    if way == "side by side":
        started = time.perf_counter()
        with SideBySide(_CPU, Progress()) as side:
            others = [side.begin(partial(_silent, networks[name])) for name in ("encoder", "auto-encoder")]
            networks["jury"]()
            for other in others:
                other()
        return {"all three": time.perf_counter() - started}
    with torch_threads(1 if way == "one" else torch.get_num_threads()):
        for name, train in networks.items():
            started = time.perf_counter()
            train()
            found[name] = time.perf_counter() - started
    return {**found, "all three": sum(found.values())}


def search(way: str, words: list[str]) -> None:
    """Run a command line here, with as many threads in its search as the way says."""
    from diffgen.cli import main as run

    threads = 1 if way == "one" else torch.get_num_threads()
    technique_run.search_threads = lambda source, image_shape: threads
    raise SystemExit(run(words))


def queries(pair: Pair, way: str, options: argparse.Namespace, budget: str, folder: Path) -> int:
    """How many a search asks, in a process of its own.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    given = command(pair, shlex.split(options.words), budget=budget, seed=1, output=folder / "run")
    words = given[given.index("diffgen") + 1 :]
    child = [sys.executable, "-m", "benchmarks.side_by_side", "--watched", way, *words]
    environment = {**os.environ, **_PASSIVE, ENVIRONMENT: str(folder / "cache")}
    subprocess.run(child, env=environment, check=True, stdout=subprocess.DEVNULL)
    return int(RunFolder.open(folder / "run").results()["queries"])


def _row(name: str, values: list[float]) -> str:
    return f"| {name} | {statistics.median(values):,.1f} | {', '.join(f'{each:,.1f}' for each in values)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--models", type=Path, default=Path("pairs"), help="OUT of benchmarks.pairs")
    parser.add_argument("--pairs", nargs="+", default=["optimizer"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", default="12s")
    parser.add_argument("--share", type=float, default=1.0, help="of the steps of jury and auto-encoder")
    parser.add_argument("--words", default="", help="further words for every command line")
    parser.add_argument("--trained", nargs=2, metavar=("WAY", "DATA"), help=argparse.SUPPRESS)
    parser.add_argument("--watched", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.watched:
        search(options.watched[0], options.watched[1:])
    if options.trained:
        way, data = options.trained
        for name, took in train_all(way, load(data), options.share).items():
            print(name, took, sep="\t")
        return
    with tempfile.TemporaryDirectory() as kept:
        makers = find_pairs(options.shared, options.models, Path(kept) / "models")
        pairs = [makers[name]() for name in options.pairs]
        seconds: dict[str, list[float]] = defaultdict(list)
        asked: dict[str, list[float]] = defaultdict(list)
        for pair in pairs:
            (Path(kept) / pair.name).mkdir()
            queries(pair, "one", options, _FILL, Path(kept) / pair.name)
        for _ in range(options.rounds):
            for way in ("all", "one", "side by side"):
                child = [sys.executable, "-m", "benchmarks.side_by_side", "--share", str(options.share)]
                words = [*child, "--trained", way, pairs[0].data]
                said = subprocess.check_output(words, env={**os.environ, **_PASSIVE}, text=True)
                for name, value in (line.split("\t") for line in said.splitlines()):
                    seconds[f"{name}, {way}"].append(float(value))
            for pair in pairs:
                for way in ("all", "one"):
                    own = Path(kept) / pair.name
                    asked[f"{pair.name}, {way}"].append(float(queries(pair, way, options, options.budget, own)))
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}\n")
    print("| network, threads | seconds, median | each |\n|---|---:|---|")
    print("\n".join(_row(name, values) for name, values in seconds.items()))
    print(f"\n| pair, threads of the search | queries in {options.budget}, median | each |\n|---|---:|---|")
    print("\n".join(_row(name, values) for name, values in asked.items()))


if __name__ == "__main__":
    main()
