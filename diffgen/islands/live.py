"""A search on islands as it is announced: with what was asked since the last reports."""

from __future__ import annotations

from collections.abc import Callable

from diffgen.comparison.announcements import Counting
from diffgen.islands.collector import Collector
from diffgen.islands.messages import Tick


class Live:
    """How far a search is; what :class:`diffgen.comparison.announcements.Announcements` asks of a loop.

    Args:
        collector: of the search.
        seconds: tells how long it has searched.
    """

    def __init__(self, collector: Collector, seconds: Callable[[], float]) -> None:
        self._collector, self._seconds = collector, seconds
        self._asked: dict[int, int] = {}
        self.evaluator: Counting = _Count(collector, lambda: self.queries)
        self.saturation_queries = collector.saturation_queries

    def tick(self, number: int, tick: Tick) -> None:
        """Take in how far an island is."""
        # a worker that does again what another had not reported has been that far before
        self._asked[number] = max(tick.queries, self._asked.get(number, 0))

    @property
    def seconds(self) -> float:
        """Seconds of searching so far."""
        return self._seconds()

    @property
    def queries(self) -> int:
        """Queries of all islands."""
        islands = self._collector.islands
        return sum(max(each.queries, self._asked.get(number, 0)) for number, each in enumerate(islands))


class _Count:
    """The collector, with as many queries as were asked and not as were merged."""

    def __init__(self, collector: Collector, queries: Callable[[], int]) -> None:
        self._queries = queries
        self.archive, self.behaviours = collector.archive, collector.behaviours
        self.asks_filters = collector.asks_filters

    @property
    def queries(self) -> int:
        """Of all islands."""
        return self._queries()
