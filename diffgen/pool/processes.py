"""Calls in new processes of this machine."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from diffgen.pool.calls import Ended, Failed, Function, Link, attempt

_SECONDS_TO_END = 2.0
_STOP = "stop"


class Processes:
    """Calls in processes, which may start others; see :class:`diffgen.pool.calls.Pool`."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[SpawnProcess, Connection]] = {}
        self._begun: set[int] = set()  # these got as far as diffgen's own code

    def start(self, number: int, function: Function, *arguments: Any) -> None:
        """Call it in a new process."""
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), name=f"diffgen-call-{number}")
        process.start()
        theirs.close()
        self._running[number] = process, ours
        # not as an argument: those are written to a pipe whose other end is open in this process too, so that a process
        # that dies before it has read them would be waited for without end
        self.tell(number, (function, arguments))

    def tell(self, number: int, message: Any) -> None:
        """Put something into what a call was told; one that is dead is heard of in :meth:`events`."""
        if number in self._running:
            try:
                self._running[number][1].send(message)
            except (BrokenPipeError, ConnectionResetError):
                return

    def stop(self) -> None:
        """Let all calls end in good order."""
        for number in self._running:
            self.tell(number, _STOP)

    def events(self, seconds: float) -> list[tuple[int, Any]]:
        """What the calls said, and an :class:`Ended` of each that is over, after so many ``seconds`` at most."""
        ready = wait([connection for _, connection in self._running.values()], seconds)
        heard: list[tuple[int, Any]] = []
        for number, (process, connection) in list(self._running.items()):
            if connection not in ready:
                continue
            try:
                event = connection.recv()
            except (EOFError, OSError):  # also in the midst of what it says
                event = Ended(_how_it_ended(process, begun=number in self._begun))
            if event is None:
                self._begun.add(number)
                continue
            if isinstance(event, Ended):
                process.join(_SECONDS_TO_END)
                self.end(number)
            heard.append((number, event))
        return heard

    def end(self, number: int) -> None:
        """End a call, whatever it is doing."""
        if number not in self._running:
            return
        process, connection = self._running.pop(number)
        self._begun.discard(number)
        process.kill()
        process.join()
        connection.close()

    def close(self) -> None:
        """End all calls."""
        for number in list(self._running):
            self.end(number)


def _how_it_ended(process: SpawnProcess, *, begun: bool) -> Failed:
    """What there is to say of a process that ended without a word."""
    process.join(_SECONDS_TO_END)
    code = process.exitcode
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        memory = ", as when memory is full" if name == "SIGKILL" else ""
        return Failed(f"its process was ended by the signal {name}{memory}", died=True)
    # a new process imports the script that started it, and must not do there again what started it
    why = "" if begun else ", before it began: a script must call diffgen under 'if __name__ == \"__main__\":'"
    return Failed(f"its process ended with the code {code}{why}", died=True)


def _serve(connection: Connection) -> None:
    """The whole life of a process."""
    # Ctrl-C reaches every process of a terminal; the one that was started says what is to be done
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def say(event: Any) -> None:
        try:
            connection.send(event)
        except BrokenPipeError:
            os._exit(1)  # nobody is there any more

    say(None)  # it has begun
    try:
        function, arguments = connection.recv()
    except (EOFError, OSError):
        return
    link = Link(say)
    threading.Thread(target=_listen, args=(connection, link), daemon=True).start()
    say(attempt(link, function, arguments))


def _listen(connection: Connection, link: Link) -> None:
    """Take in what the call is told while it works; without who started it there is nothing to work for."""
    while True:
        try:
            message = connection.recv()
        except (EOFError, OSError):
            os._exit(1)
        if message == _STOP:
            link.stop.stop()
        else:
            link.told.put(message)
