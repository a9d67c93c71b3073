"""The second signal ends the program, whatever it is doing."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

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
