"""What is called in other processes."""

from __future__ import annotations

import os
import queue
import time

from diffgen.events import Listener, Message
from diffgen.pool.calls import Link


def says(listener: Listener, text: str) -> None:
    listener(Message("detail", "nobody hears it"))
    listener(Message("info", text))


def breaks_a_pipe(listener: Listener) -> None:
    raise BrokenPipeError("the server is gone")


def dies(listener: Listener, by: int) -> None:
    os.kill(os.getpid(), by)


def waits(listener: Listener) -> None:
    time.sleep(600)


def repeats(link: Link) -> None:
    while not link.stop.stopped:
        try:
            link.say(link.told.get(timeout=0.1))
        except queue.Empty:
            continue
