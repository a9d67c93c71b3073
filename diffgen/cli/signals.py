"""Ctrl-C: the first one ends a search in good order, the second one the program, whatever it is doing."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from diffgen.events import Message, Progress

STOPPING = "Stopping: what was found is kept and reported; stop again (Ctrl-C) to end at once."
_SECONDS_TO_SPEAK = 2.0  # the screen may be blocked; stopping must not wait for it


@contextmanager
def signals_stop(progress: Progress, stopping: str = STOPPING) -> Iterator[None]:
    """While the block runs, SIGINT and SIGTERM stop a search in good order, and raise KeyboardInterrupt elsewhere.

    The first signal sets ``progress.stop``; a second one in a search raises KeyboardInterrupt, too. Where that is lost,
    as in what Python calls while it frees an object, the work ends the next time that it says how far it is.

    What is said about it, ``stopping``, is said by a thread: the signal may have come while this one was writing to the
    screen, and writing is not reentrant.
    """
    stop = progress.stop

    def speak() -> None:
        if progress.listener is not None:  # alone: a run keeps what else is warned of, and this is no fault of it
            progress.listener(Message("warning", stopping))

    speaker = threading.Thread(target=speak, daemon=True)

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.stopped or not stop.heeded:
            stop.stop()
            raise KeyboardInterrupt
        stop.stop()
        speaker.start()

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        if speaker.ident is not None:  # it was begun
            speaker.join(_SECONDS_TO_SPEAK)
        for number, handler in previous.items():
            signal.signal(number, handler)


INTERRUPTED = 130
# Some programs pass on to their children what the terminal has sent to these already.
_ONE_AND_THE_SAME = 0.3
_SECONDS_TO_UNWIND = 3.0


@contextmanager
def second_signal_ends() -> Iterator[list[int]]:
    """While the block runs, a second SIGINT or SIGTERM ends this process after some seconds, if nothing else does.

    Python handles signals when its main thread comes back from what it computes, which a model that loops in this
    process never does. A thread of its own hears of them at once.

    Yields:
        A list that holds the signals that were heard.
    """
    heard, told = os.pipe()
    os.set_blocking(told, False)
    over = threading.Event()
    known: list[int] = []
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(heard, over, known), daemon=True)
    watcher.start()
    try:
        # who started this process may have held interrupts back until somebody here would hear them: one comes now
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        yield known
    finally:
        signal.set_wakeup_fd(before)
        over.set()
        os.close(told)
        watcher.join()
        os.close(heard)


def _watch(heard: int, over: threading.Event, known: list[int]) -> None:
    first: float | None = None
    while numbers := os.read(heard, 64):
        if not {signal.SIGINT, signal.SIGTERM} & set(numbers):
            continue
        known.extend(numbers)
        now = time.monotonic()
        if first is None:
            first = now
        elif now - first > _ONE_AND_THE_SAME:
            if not over.wait(_SECONDS_TO_UNWIND):
                os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"diffgen: interrupted\n")
                os._exit(INTERRUPTED)
            return
