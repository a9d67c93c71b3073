"""Entry point of ``diffgen sweep``: many comparisons, each in a process and a run folder of its own."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from dataclasses import asdict, dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.islands.failure import failed
from diffgen.islands.messages import Failed
from diffgen.runs.files import make_folder
from diffgen.runs.lock import RunLock
from diffgen.sweeps.mark import RUNS, begun_with, mark
from diffgen.sweeps.outcomes import Outcome, is_done, outcome_of, write_table
from diffgen.sweeps.plan import Cell, read_plan

_SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True)
class SweepResult:
    """What came of a sweep.

    Attributes:
        folder: of the sweep.
        report: its page.
        outcomes: of all comparisons, in the order of the file.
        interrupted: somebody ended it before all were done.
    """

    folder: str
    report: str
    outcomes: tuple[Outcome, ...]
    interrupted: bool = False

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def sweep(
    plan: str | Path, *, workers: int = 1, events: Listener | None = None, stop: StopToken | None = None
) -> SweepResult:
    """Run the comparisons of a sweep that are not done, and write its table and its page.

    What is done stays; a comparison that was broken off goes on where it was. One that fails is named in the table, and
    tried again the next time.

    Args:
        plan: TOML file; see :mod:`diffgen.sweeps.plan`.
        workers: comparisons at once, each with its share of this machine's threads.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: the file cannot be used, its output holds what no sweep wrote, a comparison was begun with other
            models, data or settings, or another process works on the sweep.
    """
    if workers < 1:
        raise UserError(f"The number of workers, {workers}, is not positive; give --workers 1 or more.")
    progress, made = Progress(events, stop), read_plan(plan)
    begun_with(made.output)  # nothing is written into a folder of others, not even a lock
    make_folder(made.output)
    with RunLock(made.output):
        mark(made.output, made.cells)
        return _Sweep(made.output, made.cells, workers, progress).run()


class _Sweep:
    """A sweep that runs."""

    def __init__(self, folder: Path, cells: tuple[Cell, ...], workers: int, progress: Progress) -> None:
        self._folder, self._cells, self._workers, self._progress = folder, cells, workers, progress
        self._failures: dict[int, str] = {}

    def run(self) -> SweepResult:
        """All comparisons that are left."""
        done = [is_done(self._place(number)) for number in range(len(self._cells))]
        left = deque(number for number, each in enumerate(done) if not each)
        if any(done):
            self._progress.say(f"{sum(done):,} of {len(done):,} comparisons are done already.")
        make_folder(self._folder / RUNS)
        running: dict[Connection, tuple[int, SpawnProcess]] = {}
        stop = self._progress.stop
        with self._progress.stage("Comparing", total=len(done)) as stage, stop.heeding():
            stage.reach(sum(done))
            try:
                while (left or running) and not stop.stopped:
                    while left and len(running) < self._workers:
                        number = left.popleft()
                        running.update([self._start(number)])
                    for connection in wait(list(running), _SECONDS_BETWEEN_LOOKS):
                        assert isinstance(connection, Connection)
                        self._end(*running.pop(connection), connection)
                        stage.advance(failed=len(self._failures))
            finally:
                for connection, (_, process) in running.items():
                    process.kill()  # its run goes on from its checkpoint
                    process.join()
                    connection.close()
        return self._conclude()

    def _place(self, number: int) -> Path:
        return self._folder / RUNS / self._cells[number].name

    def _start(self, number: int) -> tuple[Connection, tuple[int, SpawnProcess]]:
        context = get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=_compare, args=(theirs, self._cells[number], self._place(number), self._workers)
        )
        process.start()
        theirs.close()
        self._progress.detail(f"{self._cells[number].name}: begun.")
        return ours, (number, process)

    def _end(self, number: int, process: SpawnProcess, connection: Connection) -> None:
        """Hear what a process says of its comparison at its end."""
        try:
            said: Failed | None = connection.recv()
        except (EOFError, OSError):
            process.join()
            said = Failed(f"its process ended with the code {process.exitcode}")
        process.join()
        connection.close()
        name = self._cells[number].name
        if said is None:
            self._progress.say(f"{name}: done.")
        else:
            self._failures[number] = said.text
            self._progress.warn(f"{name}: {said.text}")

    def _conclude(self) -> SweepResult:
        outcomes = tuple(
            outcome_of(cell, self._place(number), self._failures.get(number)) for number, cell in enumerate(self._cells)
        )
        page = write_table(outcomes, self._folder)
        return SweepResult(str(self._folder), str(page), outcomes, self._progress.stop.stopped)


def _compare(connection: Connection, cell: Cell, run: Path, at_once: int) -> None:
    """The whole life of a process: one comparison, begun or gone on with; says what it failed of."""
    # Ctrl-C reaches every process of a terminal; the one that was started ends this one
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        run_cell(cell, run, at_once)
    except Exception as error:  # whatever it is, the table says it and the sweep goes on
        connection.send(failed(error))
    else:
        connection.send(None)


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, however that ended."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def run_cell(cell: Cell, run: Path, at_once: int) -> None:
    """Do one comparison, or go on with it.

    Args:
        cell: which.
        run: its folder.
        at_once: how many share this machine.

    Raises:
        UserError, RunError: see :func:`diffgen.workflows.compare.compare`.
    """
    import torch

    from diffgen.workflows.compare import compare
    from diffgen.workflows.resume import resume

    torch.set_num_threads(max(1, torch.get_num_threads() // at_once))
    if (run / "config.toml").is_file():
        resume(run)
        return
    compare(*cell.models, data=cell.data, config=cell.config(), output=run, force=True, command=f"sweep: {cell.name}")
