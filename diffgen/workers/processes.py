"""Calls in new processes of this machine."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from diffgen.events import Event, Message
from diffgen.workers.calls import Ended, Function, attempt
from diffgen.workers.messages import Said, how_it_ended


class CallProcesses:
    """Calls in processes; see :class:`diffgen.workers.calls.Calls`."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[SpawnProcess, Connection]] = {}
        self._begun: set[int] = set()

    def start(self, number: int, function: Function, *arguments: Any) -> None:
        """Call it in a new process, which is no daemon: it may start others."""
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), name=f"diffgen-call-{number}")
        process.start()
        theirs.close()
        self._running[number] = process, ours
        # not as an argument: those are written to a pipe whose other end is open in this process too, so that a process
        # that dies before it has read them would be waited for without end
        try:
            ours.send((function, arguments))
        except (BrokenPipeError, ConnectionResetError):
            return  # it is dead already, and heard of in events

    def events(self, seconds: float) -> list[tuple[int, Said | Ended]]:
        """What is heard of the calls, after so many ``seconds`` at most."""
        heard = wait([connection for _, connection in self._running.values()], seconds)
        found: list[tuple[int, Said | Ended]] = []
        for number, (process, connection) in list(self._running.items()):
            if connection not in heard:
                continue
            try:
                event: Said | Ended | None = connection.recv()
            except (EOFError, OSError):
                event = Ended(how_it_ended(process, begun=number in self._begun))
            if event is None:
                self._begun.add(number)
                continue
            if isinstance(event, Ended):
                process.join()
                connection.close()
                del self._running[number]
            found.append((number, event))
        return found

    def close(self) -> None:
        """End all calls, whatever they are doing."""
        for process, connection in self._running.values():
            process.kill()
            process.join()
            connection.close()
        self._running.clear()


def _serve(connection: Connection) -> None:
    """The whole life of a process."""
    # Ctrl-C reaches every process of a terminal; the one that was started ends this one
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        connection.send(None)  # it has begun
        function, arguments = connection.recv()
    except (EOFError, OSError):
        return

    def listen(event: Event) -> None:
        if isinstance(event, Message) and event.level != "detail":
            connection.send(Said(event.text, event.level == "warning"))

    connection.send(attempt(listen, function, arguments))


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, however that ended."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
