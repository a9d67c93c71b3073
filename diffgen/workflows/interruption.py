"""Ctrl-C during a search: the first one ends it in good order, the second one ends the program."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from diffgen.types import Progress


@contextmanager
def graceful_stop(stop: Callable[[], None], progress: Progress) -> Iterator[None]:
    """While the block runs, SIGINT and SIGTERM call ``stop`` once; a second signal raises KeyboardInterrupt.

    Signals can only be caught in the main thread; elsewhere the block runs as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        progress.warn("Stopping: what was found is kept and reported (press Ctrl-C again to stop at once).")
        stop()

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
