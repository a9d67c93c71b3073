"""Islands that search in this process, one task at a time, in an order that is drawn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from diffgen.comparison.islands.island import Island
from diffgen.comparison.islands.messages import Begin, Epoch
from diffgen.pool.calls import Ended, Failed, Function, Link, failed

Dies = Callable[[int, Epoch], bool]


class InTurn:
    """See :class:`diffgen.pool.calls.Pool`.

    Args:
        seed: of the order.
        dies: whether a worker dies instead of doing a task, or after it, without a report.
        after_report: called with every epoch that was reported.
        starts: whether a worker comes up.
        killed: who dies says nothing of it, as one that was killed.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        dies: Dies = lambda number, epoch: False,
        after_report: Callable[[int], None] = lambda epoch: None,
        starts: Callable[[int], bool] = lambda number: True,
        killed: bool = False,
    ) -> None:
        self._starts, self._killed = starts, killed
        self._rng, self._dies, self._after_report = np.random.default_rng(seed), dies, after_report
        self._islands: dict[int, Island] = {}
        self._links: list[Link] = []
        self._tasks: dict[int, deque[Begin | Epoch]] = {}
        self._said: list[tuple[int, Any]] = []

    def start(self, number: int, function: Function, *arguments: Any) -> None:
        if not self._starts(number):
            self._said.append((number, Ended(Failed("its machine is gone"))))
            return
        self._links.append(Link(lambda event: self._said.append((number, event))))
        try:
            self._islands[number] = Island(self._links[-1], *arguments)
        except Exception as error:
            self._said.append((number, Ended(failed(error))))
            return
        self._tasks[number] = deque()
        self._said.append((number, self._islands[number].ready))

    def tell(self, number: int, message: Begin | Epoch) -> None:
        if number in self._tasks:
            self._tasks[number].append(message)

    def stop(self) -> None:
        for link in self._links:
            link.stop.stop()

    def events(self, seconds: float) -> list[tuple[int, Any]]:
        if self._said:
            said, self._said = self._said, []
            return said
        busy = [number for number, tasks in self._tasks.items() if tasks]
        if not busy:
            return []
        number = busy[int(self._rng.integers(len(busy)))]
        task = self._tasks[number].popleft()
        if isinstance(task, Begin):
            self._islands[number].begin(task)
            return []
        if self._dies(number, task):
            self.end(number)
            return [(number, Ended(Failed("it was ended by a test", died=self._killed)))]
        try:
            report = self._islands[number].epoch(task)
        except Exception as error:
            self.end(number)
            return [(number, Ended(failed(error)))]
        self._after_report(task.number)
        return [] if report is None else [(number, report)]

    def end(self, number: int) -> None:
        self._islands.pop(number, None)
        self._tasks.pop(number, None)

    def close(self) -> None:
        self._islands.clear()
