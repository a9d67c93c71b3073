"""Ctrl-C during a search: the first one ends it in good order, the second one ends the program."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from diffgen.models.isolation.patience import hurry, take_time
from diffgen.types import Progress

_STOPPING = "Stopping: what was found is kept and reported (press Ctrl-C again to stop at once)."
_SECONDS_TO_SPEAK = 2.0  # the screen may be blocked; stopping must not wait for it


@contextmanager
def graceful_stop(stop: Callable[[], None], progress: Progress) -> Iterator[None]:
    """While the block runs, SIGINT and SIGTERM call ``stop`` once; a second signal raises KeyboardInterrupt.

    An isolated model that is computing a batch at the first signal gets a short grace; then its process is ended and
    KeyboardInterrupt is raised.

    What is said about it is said by a thread: the signal may have come while this one was writing to the screen, and
    writing is not reentrant.

    Signals can only be caught in the main thread; elsewhere the block runs as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = False
    speaker = threading.Thread(target=progress.warn, args=(_STOPPING,), daemon=True)

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        hurry()
        stop()
        speaker.start()

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        take_time()
        if asked:
            speaker.join(_SECONDS_TO_SPEAK)
        for number, handler in previous.items():
            signal.signal(number, handler)
