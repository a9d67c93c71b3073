"""Ctrl-C during a search: the first one ends it in good order, the second one ends the program."""

from __future__ import annotations

import signal
import threading
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
