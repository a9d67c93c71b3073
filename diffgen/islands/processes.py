"""Workers as processes of this machine, newly started ones and no forks."""

from __future__ import annotations

import os
import queue
import signal
import threading
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from diffgen.events import StopToken
from diffgen.islands.messages import Begin, Epoch, Event, Job
from diffgen.workers.messages import Failed, failed, how_it_ended

_SECONDS_TO_END = 0.5
_STOP = "stop"


class Processes:
    """The workers of a run as processes; see :class:`diffgen.islands.crew.Crew`.

    Args:
        job: what they work on.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._workers: dict[int, tuple[SpawnProcess, Connection]] = {}

    def start(self, number: int) -> None:
        """Start the worker of an island."""
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, number), name=f"diffgen-island-{number}")
        process.daemon = True
        process.start()
        theirs.close()
        self._workers[number] = process, ours
        # not as an argument: those are written to a pipe whose other end is open in this process too, so that a process
        # that dies before it has read them would be waited for without end
        self._send(number, self._job)

    def tell(self, number: int, message: Begin | Epoch) -> None:
        """Hand a worker its next task; one that is dead is heard of in :meth:`events`."""
        self._send(number, message)

    def stop(self) -> None:
        """Let all workers end in good order."""
        for number in self._workers:
            self._send(number, _STOP)

    def _send(self, number: int, message: Any) -> None:
        if number in self._workers:
            try:
                self._workers[number][1].send(message)
            except (BrokenPipeError, ConnectionResetError):
                return

    def events(self, seconds: float) -> list[tuple[int, Event]]:
        """What the workers have to say, after so many ``seconds`` at most."""
        heard = wait([connection for _, connection in self._workers.values()], seconds)
        found: list[tuple[int, Event]] = []
        for number, (_, connection) in list(self._workers.items()):
            if connection not in heard:
                continue
            event: Event
            try:
                event = connection.recv()
            except (EOFError, OSError):  # also in the midst of a report
                event = how_it_ended(self._workers[number][0])
            if isinstance(event, Failed):
                self.end(number)
            found.append((number, event))
        return found

    def end(self, number: int) -> None:
        """End a worker, whatever it is doing."""
        process, connection = self._workers.pop(number)
        connection.close()
        process.join(_SECONDS_TO_END)
        if process.is_alive():
            process.kill()
            process.join()

    def pids(self) -> dict[int, int]:
        """The process of each island that has one."""
        return {number: process.pid for number, (process, _) in self._workers.items() if process.pid is not None}

    def close(self) -> None:
        """End all workers."""
        for number in list(self._workers):
            self.end(number)


def _serve(connection: Connection, number: int) -> None:
    """The whole life of a worker."""
    # Ctrl-C reaches every process of a terminal; the one that was started says what is to be done
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop, tasks = StopToken(), queue.Queue[Begin | Epoch]()

    def say(event: Event) -> None:
        try:
            connection.send(event)
        except BrokenPipeError:
            os._exit(0)  # nobody is there any more

    try:
        job: Job = connection.recv()
    except EOFError:
        return
    threading.Thread(target=_listen, args=(connection, stop, tasks), daemon=True).start()
    try:
        from diffgen.islands.island import Island

        island = Island(job, number, say, stop)
        say(island.ready)
        while True:
            task = tasks.get()
            if isinstance(task, Begin):
                island.begin(task)
            elif (report := island.epoch(task)) is not None:
                say(report)
    except Exception as error:  # of a model, a technique or the data: the driver says it and decides
        say(failed(error))


def _listen(connection: Connection, stop: StopToken, tasks: queue.Queue[Begin | Epoch]) -> None:
    """Take in what the driver says, also while the worker computes; without a driver there is nothing to compute."""
    while True:
        try:
            message = connection.recv()
        except (EOFError, OSError):
            os._exit(0)
        if message == _STOP:
            stop.stop()
        else:
            tasks.put(message)
