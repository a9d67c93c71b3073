"""What several workers bring, and what dying workers cost.

    python -m benchmarks.islands speed --workers 1,2,4 --milliseconds 0,5,20 --seconds 20
    python -m benchmarks.islands kills --kills 20 --drivers 2

Two small classifiers of digits are compared by the default search. ``speed`` lets them sleep some milliseconds for
each picture, as a model on a server would, but only while the search runs. One worker is the search in this process,
with one thread as each of several has, and with as many as ``--threads`` says. ``kills`` ends workers by SIGKILL at
random times and compares what was found with an undisturbed run; with ``--drivers`` it also ends the process that was
started, and resumes the run. Processor seconds are those of all processes, from the beginning of the search to its end.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path

import numpy as np
import torch

from benchmarks.process_tree import processor_seconds, started_by
from benchmarks.sleeping import Sleeping
from diffgen import compare, resume
from diffgen.config import CompareConfig, FilterConfig, IslandConfig, SearchConfig, replace
from diffgen.data import load
from diffgen.events import Event, StageEnded, StageStarted
from diffgen.runs.folder import RunFolder
from diffgen.workflows.demo import convolutional_classifier, dense_classifier, save_torchscript, train_classifier

_SEARCH = "Searching for disagreements"
Line = tuple[object, ...]


class Watch:
    """Raises the flag while a search runs, and takes the processor time of it.

    Attributes:
        processor: seconds of all processes.
        own: seconds of this process alone.
    """

    def __init__(self, flag: Path) -> None:
        self.flag = flag
        self.processor = self.own = 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, StageStarted) and event.name == _SEARCH:
            self.flag.touch()
            self.processor, self.own = processor_seconds(os.getpid()), time.process_time()
        elif isinstance(event, StageEnded) and event.name == _SEARCH:
            # workers that were ended are counted in their parent's children, which processor_seconds includes
            self.processor = processor_seconds(os.getpid()) - self.processor
            self.own = time.process_time() - self.own
            self.flag.unlink()


def models(folder: Path, passes: int) -> tuple[Path, Path]:
    """Two small classifiers of digits."""
    training = load("digits:train")
    for name, network in (("a", convolutional_classifier(10)), ("b", dense_classifier(10))):
        save_torchscript(train_classifier(network, training, seed=0, passes=passes), folder / f"{name}.pt")
    return folder / "a.pt", folder / "b.pt"


def settings(arguments: argparse.Namespace) -> CompareConfig:
    """Of all runs here."""
    filters = FilterConfig(filters={"jury": {"shown": 640}}) if arguments.quick else FilterConfig()
    return CompareConfig(filters=filters, search=SearchConfig(population=arguments.population))


def speed(arguments: argparse.Namespace, folder: Path) -> list[Line]:
    """Queries a second and behaviours by number of workers and speed of models."""
    files, flag = models(folder, arguments.passes), folder / "searching"
    lines: list[Line] = []
    for milliseconds in map(float, arguments.milliseconds.split(",")):
        alone = 0.0
        ways = [(int(each), 1) for each in arguments.workers.split(",")]
        for workers, threads in [*ways, *((1, int(each)) for each in arguments.threads.split(",") if each)]:
            watch = Watch(flag)
            torch.set_num_threads(threads)
            result = compare(
                *(Sleeping(file, milliseconds, flag) for file in files),
                data="digits",
                config=replace(settings(arguments), islands=IslandConfig(workers=workers, threads=threads)),
                budget=f"{arguments.seconds:g}s",
                output=folder / f"speed-{milliseconds:g}-{workers}-{threads}",
                events=watch,
            )
            rate = result.queries / result.seconds
            alone = alone or rate
            lines.append(
                (
                    f"{milliseconds:g}",
                    workers,
                    threads,
                    f"{result.queries:,}",
                    f"{rate:,.0f}",
                    f"{rate / alone:.2f}",
                    f"{1000 * watch.processor / max(1, result.queries):.2f}",
                    f"{1000 * watch.own / max(1, result.queries):.2f}",
                    result.recognised_behaviours,
                )
            )
            show(lines[-1])
    return lines


def kills(arguments: argparse.Namespace, folder: Path) -> list[Line]:
    """A run whose workers, and whose driver, are killed at random, and one that nobody disturbs."""
    files = models(folder, arguments.passes)
    config = replace(settings(arguments), islands=IslandConfig(workers=2, threads=1), seed=7)
    undisturbed = compare(*files, data="digits", config=config, budget=arguments.budget, output=folder / "whole")
    asked, whole = undisturbed.queries, _columns(folder / "whole")
    run, flag = folder / "killed", folder / "searching"
    search = partial(get_context("spawn").Process, target=_search, args=(files, config, arguments.budget, run, flag))
    workers, drivers = _kill(arguments, search, flag)
    found = _columns(run)
    lost = set(map(bytes, whole["hashes"])) - set(map(bytes, found["hashes"]))
    same = all(
        np.array_equal(found[name], column, equal_nan=column.dtype.kind == "f") for name, column in whole.items()
    )
    queries = f"{RunFolder.open(run).results()['queries']:,} of {asked:,}"
    line = (workers, drivers, queries, len(whole["hashes"]), len(lost), "yes" if same else "no")
    show(line)
    return [line]


def _search(files: tuple[Path, Path], config: CompareConfig, budget: str, run: Path, flag: Path) -> None:
    """Begin a run, or go on with it; the flag is there while it searches."""
    torch.set_num_threads(1)
    if (run / "manifest.json").is_file():
        resume(run, events=Watch(flag))
    else:
        compare(*files, data="digits", config=config, budget=budget, output=run, events=Watch(flag), force=True)


def _kill(arguments: argparse.Namespace, search: Callable[[], SpawnProcess], flag: Path) -> tuple[int, int]:
    """Ends processes of a search at random, and starts it again until it has ended; how many workers, and drivers."""
    rng, workers, drivers = random.Random(0), 0, 0
    driver = search()
    driver.start()
    while driver.is_alive():
        driver.join(rng.uniform(0.5, 1.5) * arguments.pause)
        left = arguments.kills - workers + arguments.drivers - drivers
        if not (driver.is_alive() and flag.exists() and left):
            continue
        if rng.randrange(left) < arguments.drivers - drivers:
            driver.kill()
            driver.join()
            drivers += 1
            flag.unlink(missing_ok=True)
            driver = search()
            driver.start()
            continue
        assert driver.pid is not None
        if found := [pid for pid, command in started_by(driver.pid).items() if "spawn_main" in command]:
            os.kill(rng.choice(found), signal.SIGKILL)
            workers += 1
    if driver.exitcode:
        raise RuntimeError(f"the run did not end well: {driver.exitcode}")
    return workers, drivers


def _columns(run: Path) -> dict[str, np.ndarray]:
    return RunFolder.open(run).read_triggers().columns()


_HEADS = {
    "speed": (
        "ms",
        "workers",
        "threads of each",
        "queries",
        "queries/s",
        "times one",
        "CPU ms/query",
        "of the driver",
        "behaviours",
    ),
    "kills": ("workers killed", "drivers killed", "queries", "triggers", "lost", "same run"),
}


def show(line: Line) -> None:
    """Print a line of a table at once."""
    print(f"| {' | '.join(map(str, line))} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=sorted(_HEADS))
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--threads", default="2", help="of one process, which is compared with several workers too")
    parser.add_argument("--milliseconds", default="0,5,20")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--budget", default="20000q")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--drivers", type=int, default=0, help="kills of the process that was started, besides")
    parser.add_argument("--pause", type=float, default=6.0, help="mean seconds between two kills")
    parser.add_argument("--population", type=int, default=100)
    parser.add_argument("--passes", type=int, default=6)
    parser.add_argument("--quick", action="store_true", help="a small jury: shows whether it runs")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    show(_HEADS[arguments.what])
    show(("---",) * len(_HEADS[arguments.what]))
    with tempfile.TemporaryDirectory() as folder:
        {"speed": speed, "kills": kills}[arguments.what](arguments, Path(folder))


if __name__ == "__main__":
    main()
