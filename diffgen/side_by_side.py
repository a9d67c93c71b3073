"""Does several parts of a work at the same time, each with one thread of the processor.

The networks of a data set are so small that two threads train one of them no sooner than one thread does, and often
later (docs/decisions/055). So each is trained with one thread, and of a block at most as many at once as there are
threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import TypeVar

import torch

from diffgen.events import Event, Progress, StageAdvanced, StopToken
from diffgen.numerics import all_threads, torch_threads

_Made = TypeVar("_Made")
_SECONDS_BETWEEN_LOOKS = 0.1  # whether a part has got further, and whether the work shall end


class SideBySide:
    """A block of work beside which parts of it are done; those that are not done when it ends are given up.

    Where parts are made at once, torch computes with one thread inside the block, and the caller's own work is one of
    the parts. They begin in the order in which they are handed over; a part that has not begun when its result is asked
    for is done by the thread that asks. Who asks for the last one first shares the parts with the others.

    Args:
        device: where networks compute; on any but the processor nothing is done at once.
        progress: is told how far a part is, while its result is waited for, by the thread that waits.
        at_once: false where the parts take too much memory together: each is made when its result is asked for.

    >>> with SideBySide(torch.device("cpu"), Progress()) as side:
    ...     answer = side.begin(lambda progress: 6 * 7)
    ...     answer()
    42
    """

    def __init__(self, device: torch.device, progress: Progress, *, at_once: bool = True) -> None:
        self._progress = progress
        self._stop = StopToken()
        self._block = ExitStack()
        others = all_threads() - 1 if at_once and device.type == "cpu" else 0
        # a thread learns of torch's number when it first asks, and a product of matrices does not ask
        self._pool = ThreadPoolExecutor(others, "side by side", torch.get_num_threads) if others else None

    def __enter__(self) -> SideBySide:
        if self._pool is not None:
            self._block.enter_context(torch_threads(1))  # before a thread of the pool begins
            self._block.callback(self._pool.shutdown, cancel_futures=True)
            self._block.callback(self._stop.stop)
        return self

    def begin(self, work: Callable[[Progress], _Made]) -> Callable[[], _Made]:
        """Begin a part now, or where nothing is done at once, when its result is asked for.

        Args:
            work: does it. What it is handed hears how far it is, and ends it.

        Returns:
            waits for the result, which is asked for once at most, and raises what the work raised.
        """
        if self._pool is None:
            return partial(work, self._progress)
        events: SimpleQueue[Event] = SimpleQueue()
        begun = self._pool.submit(work, Progress(events.put, self._stop))

        def result() -> _Made:
            given_up = begun.cancelled()  # with the block
            # a part that has not begun, and never will now
            if not given_up and begun.cancel():
                return work(self._progress)
            return _result(begun, events, self._progress)

        return result

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._block.close()


def _result(future: Future[_Made], events: SimpleQueue[Event], progress: Progress) -> _Made:
    while True:
        done = future.done()  # before the look at the events: none comes after it
        _tell(events, progress)
        if done:
            return future.result()
        progress.stop.check()
        wait([future], timeout=_SECONDS_BETWEEN_LOOKS)


def _tell(events: SimpleQueue[Event], progress: Progress) -> None:
    """Tell what has happened since the last look; of a stage only how far it is by now."""
    happened = [events.get() for _ in range(events.qsize())]
    for number, event in enumerate(happened, start=1):
        soon = isinstance(event, StageAdvanced) and number < len(happened)
        if not (soon and isinstance(happened[number], StageAdvanced)):
            progress.send(event)
