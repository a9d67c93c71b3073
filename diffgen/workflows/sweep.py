"""Entry point of ``diffgen sweep``: many comparisons, each in a process and a run folder of its own."""

from __future__ import annotations

import os
import platform
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from diffgen.comparison.machine import differing, made_of
from diffgen.config import ModelSpec, Opening, is_address
from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.numerics import all_threads
from diffgen.pool.calls import Ended, Pool
from diffgen.pool.processes import Processes
from diffgen.runs.creation import OWN
from diffgen.runs.files import make_folder
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import RunLock
from diffgen.types import Result
from diffgen.workflows.sweep_mark import begun_with, mark, place_of
from diffgen.workflows.sweep_outcomes import Outcome, outcome_of, results_of, warnings_of, write_table
from diffgen.workflows.sweep_plan import Cell, Plan, read_plan
from diffgen.workflows.sweep_requirements import check_comparisons, warn_of_twins, warn_of_unused_source

_SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True)
class SweepResult(Result):
    """What came of a sweep.

    Attributes:
        folder: of the sweep.
        report: its page.
        outcomes: of all comparisons, in the order in which they are begun: seed by seed.
        interrupted: somebody ended it before all were done.
    """

    folder: str
    report: str
    outcomes: tuple[Outcome, ...]
    interrupted: bool = False


def sweep(
    plan: str | Path,
    *,
    workers: int | None = None,
    ray: str | None = None,
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> SweepResult:
    """Run the comparisons of a sweep that are not done, and write its table and its page.

    What is done stays; a comparison that was broken off goes on where it was. One that fails is named in the table, and
    tried again the next time.

    Args:
        plan: TOML file; see :mod:`diffgen.workflows.sweep_plan`.
        workers: comparisons at once, each with its share of the threads; None: one, on a cluster one for each core.
        ray: address of the Ray cluster that they run on, whose machines share models, data, output and cache; "auto":
            that of this machine, or one that is started for the sweep; None: processes of this machine.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: the file cannot be used, its output holds what no sweep wrote, a comparison that is not done lacks
            a model or its data or has settings that do not go together, one was begun with other models, data or
            settings, another process works on the sweep, or there is no such cluster.
    """
    if workers is not None and workers < 1:
        raise UserError(f"The number of workers, {workers}, is not positive; give --workers 1 or more.")
    progress, made = Progress(events, stop), read_plan(plan)
    begun_with(made.output)  # nothing is written into a folder of others, not even a lock
    if ray is not None:
        from diffgen.pool.ray_cluster import check

        check(ray)
    done = [results_of(place_of(made.output, cell)) is not None for cell in made.cells]
    left = [cell for cell, each in zip(made.cells, done, strict=True) if not each]
    check_comparisons(left)
    warn_of_twins(left, progress)
    warn_of_unused_source(left, progress)
    make_folder(made.output)
    with RunLock(made.output):
        mark(made.output, made.cells)
        return _Sweep(made, workers, ray, progress).run(done)


class _Sweep:
    """A sweep that runs."""

    def __init__(self, plan: Plan, workers: int | None, ray: str | None, progress: Progress) -> None:
        self._folder, self._cells, self._progress = plan.output, plan.cells, progress
        self._workers, self._ray = workers, ray
        self._failures: dict[int, str] = {}
        self._warned: set[tuple[str, str]] = set()

    def run(self, done: Sequence[bool]) -> SweepResult:
        """All comparisons that are not done."""
        left = deque(number for number, each in enumerate(done) if not each)
        if any(done):
            self._progress.say(f"{sum(done):,} of {len(done):,} comparisons are done already.")
        if left:
            self._run(left)
        outcomes = tuple(
            outcome_of(cell, self._place(number), self._failures.get(number)) for number, cell in enumerate(self._cells)
        )
        page = write_table(outcomes, self._folder)
        return SweepResult(str(self._folder), str(page), outcomes, self._progress.stop.stopped)

    def _run(self, left: deque[int]) -> None:
        stop, running = self._progress.stop, 0
        pool, at_once, threads = self._pool()
        with self._progress.stage("Comparing", total=len(self._cells)) as stage, stop.heeding():
            stage.reach(len(self._cells) - len(left))
            try:
                while (left or running) and not stop.stopped:
                    while left and running < at_once:
                        number = left.popleft()
                        pool.start(number, run_cell, self._cells[number], self._place(number), threads, made_of())
                        running += 1
                        self._progress.detail(f"{self._cells[number].name}: begun.")
                    for number, event in pool.events(_SECONDS_BETWEEN_LOOKS):
                        if isinstance(event, Ended):
                            running -= 1
                            self._end(number, event)
                            stage.advance(failed=len(self._failures))
                        elif event.warning:
                            self._warn(number, [event.text])
                        else:
                            self._progress.detail(f"{self._cells[number].name}: {event.text}")
            finally:
                pool.close()  # what still runs goes on from its checkpoint the next time

    def _pool(self) -> tuple[Pool, int, int]:
        """What runs the comparisons, how many at once, threads of each. UserError if no cluster answers."""
        if self._ray is None:
            at_once = min(self._workers or 1, len(self._cells))
            return Processes(), at_once, max(1, all_threads() // at_once)
        from diffgen.pool.ray_cluster import Cluster, RayPool

        cluster = Cluster(self._ray, min(self._workers or 1, len(self._cells)))
        at_once = min(self._workers or max(1, int(cluster.cores)), len(self._cells))
        # what each takes of a machine; a comparison that may not use a GPU is given none
        gpus = cluster.gpus > 0 and any(each.config().device != "cpu" for each in self._cells)
        cores, of_a_gpu = cluster.shares(at_once, max(1, cluster.cores // at_once), gpus=gpus, progress=self._progress)
        return RayPool(cluster, cores, of_a_gpu, begins_again=True), at_once, max(1, int(cores))

    def _place(self, number: int) -> Path:
        return place_of(self._folder, self._cells[number])

    def _end(self, number: int, event: Ended) -> None:
        name, run = self._cells[number].name, self._place(number)
        self._warn(number, warnings_of(run))  # also of what was said before it was gone on with
        if event.failure is not None:
            self._failures[number] = event.failure.text
        elif results_of(run) is None:
            self._failures[number] = (
                f"It ran on a machine whose {run} is not seen here; name a folder as output that all machines share."
            )
        if number in self._failures:
            self._progress.warn(f"{name}: {self._failures[number]}")
        else:
            self._progress.say(f"{name}: done.")

    def _warn(self, number: int, sentences: Iterable[str]) -> None:
        """Say what a comparison warns of, unless another one of the same models has said it; the page names all."""
        cell = self._cells[number]
        for each in sentences:
            if (cell.pair, each) not in self._warned:
                self._warned.add((cell.pair, each))
                self._progress.warn(f"{cell.name}: {each}")


def run_cell(events: Listener, cell: Cell, run: Path, threads: int, versions: Mapping[str, str]) -> None:
    """Do one comparison, or go on with it.

    Args:
        versions: of the process that started the sweep.

    Raises:
        UserError, RunError: see :func:`diffgen.workflows.compare.compare`; or this machine has other versions, or the
            folder is damaged.
    """
    import torch

    from diffgen.comparison.requirements import without_unused_source
    from diffgen.workflows.compare import compare
    from diffgen.workflows.resume import resume

    if differ := differing(versions, made_of()):
        raise UserError(f"{platform.node()} has {', '.join(differ)}; install the same versions everywhere.")
    torch.set_num_threads(threads)
    _check_whole(run)
    if (run / "config.toml").is_file():
        # the plan names the addresses: whoever starts it again allows them again
        allowed = tuple(ModelSpec(opening=Opening(allow_remote=is_address(model))) for model in cell.models)
        resume(run, options=allowed, events=events)
        return
    compare(
        *cell.models,
        data=cell.data,
        config=without_unused_source(cell.config()),
        output=run,
        force=True,
        command=f"sweep: {cell.name}",
        events=events,
    )


def _check_whole(run: Path) -> None:
    """See that what a run left behind can be gone on with.

    Raises:
        UserError: it cannot; other commands would be given another folder, but a sweep's runs have their places.
    """
    from diffgen.comparison.named_settings import stored_settings

    if not any(os.path.lexists(run / name) for name in OWN):
        return
    try:
        folder = RunFolder.open(run)
        if (run / "config.toml").is_file():
            stored_settings(folder)
    except UserError as error:
        raise UserError(
            f"The run in {run} cannot be gone on with (its manifest.json or config.toml is missing, damaged or of a "
            "newer diffgen); remove that folder to begin this comparison again."
        ) from error
