"""Merges what islands report: one archive, one count of behaviours, and what each is told of the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffgen.comparison.islands.messages import Begin, Columns, Epoch, Migrants, Report, table_of
from diffgen.config.compare import IslandConfig
from diffgen.runs.arrays import packed, unpacked
from diffgen.runs.triggers import TriggerTable
from diffgen.search.archive import Archive
from diffgen.search.behaviours import Behaviours
from diffgen.search.proposal import NEW_BEHAVIOUR
from diffgen.tasks.classification import behaviours
from diffgen.types import Int64Array

_AHEAD = 2  # an island may begin epoch e + 2 once all have reported e


@dataclass
class IslandState:
    """What the collector knows of one island.

    Attributes:
        own: its triggers' numbers in the archive, in the order in which it came to know them.
        state: where it goes on from, after what was merged.
        reports: that were not merged yet.
        ended: its budget is used up, or it was given up for good; it reports no more.
        given_up: it broke off too often; nobody waits for it until the others have ended. A search that is resumed
            tries it again at once.
        anew: where it has no state, it does not begin but begins anew.
        outcomes: what the technique itself counted, as far as it was told.
    """

    queries: int = 0
    own: list[Int64Array] = field(default_factory=list)
    state: bytes | None = None
    reports: deque[Report] = field(default_factory=deque)
    ended: bool = False
    given_up: bool = False
    anew: bool = False
    outcomes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def searches(self) -> bool:
        """Whether it is to report on."""
        return not (self.ended or self.given_up)

    @property
    def reported(self) -> int:
        """Its queries, also those of reports that were not merged."""
        return self.reports[-1].queries if self.reports else self.queries


@dataclass(frozen=True)
class News:
    """What an epoch brought that nobody knew.

    Attributes:
        islands: int64 (n,), which found each picture.
        numbers: int64 (n,), of the pictures in the archive.
        cells: int64 (n,), theirs.
        met_by: int64 (k,), which island met each behaviour first.
        met: int64 (k, M + 1), these behaviours.
    """

    islands: Int64Array
    numbers: Int64Array
    cells: Int64Array
    met_by: Int64Array
    met: Int64Array
    table: TriggerTable | None

    def migrants(self, island: int) -> Migrants:
        """What one island is told of it: everything that is not its own."""
        rows, met = np.flatnonzero(self.islands != island), self.met[self.met_by != island]
        columns = self.table[rows].columns() if self.table is not None and len(rows) else None
        return Migrants(columns, self.cells[rows], met if len(met) else None)


class Collector:
    """Merges reports epoch by epoch, and within an epoch island by island, whoever was faster.

    Args:
        config: how many islands there are and what they are told.
        behaviours: counts for the run.
        margin: a disagreement counts from it.
        asks_filters: whether the islands ask the filters about every trigger.
        saturation_queries: the search ends when so many queries found no new behaviour; None: it does not.

    Attributes:
        granted: the latest epoch that the islands may begin.
    """

    def __init__(
        self,
        config: IslandConfig,
        archive: Archive,
        behaviours: Behaviours,
        *,
        margin: float,
        asks_filters: bool,
        saturation_queries: int | None,
    ) -> None:
        self.archive, self.behaviours, self.margin = archive, behaviours, margin
        self.asks_filters, self.saturation_queries = asks_filters, saturation_queries
        self.islands = [IslandState() for _ in range(config.workers)]
        self.queries, self.spared = 0, 0  # islands ask all models about everything
        self.merged, self.granted = 0, _AHEAD
        self._migrants = config.migrants
        self._news: dict[int, News] = {}

    @property
    def saturated(self) -> bool:
        """Whether too long nothing new was found."""
        if self.saturation_queries is None:
            return False
        return self.queries - self.behaviours.latest_query >= self.saturation_queries

    @property
    def over(self) -> bool:
        """Whether everything that was granted is merged, or no island is left."""
        return self.merged == self.granted or not any(each.searches or each.reports for each in self.islands)

    def task(self, island: int, epoch: int) -> Epoch:
        """An epoch that was granted, with what the island is told at its beginning."""
        news = self._news.get(epoch - _AHEAD)
        return Epoch(epoch, Migrants() if news is None else news.migrants(island))

    def beginning(self, island: int, triggers: TriggerTable, seconds: float) -> Begin:
        """Where an island begins, whose reports are all merged, after so many ``seconds`` of searching."""
        about = self.islands[island]
        own = np.concatenate(about.own) if about.own else np.empty(0, dtype=np.int64)
        columns: Columns | None = triggers[own].columns() if len(own) else None
        anew = about.state is None and (about.anew or about.queries > 0)
        return Begin(about.state, columns, seconds, about.queries, self.behaviours.met if anew else None)

    def merge(self) -> bool:
        """Merge the next epoch, if all islands that still search have reported it; False: they have not."""
        waiting = [each for each in self.islands if each.reports or each.searches]
        if not waiting or not all(each.reports for each in waiting):
            return False
        self._merge([(number, each.reports.popleft()) for number, each in enumerate(self.islands) if each.reports])
        if self.granted - self.merged < _AHEAD and not self.saturated:
            self.granted = self.merged + _AHEAD
        return True

    def merge_rest(self) -> None:
        """Merge what is there of epochs that not all islands have reported, at the end of a search."""
        while any(each.reports for each in self.islands):
            self._merge([(number, each.reports.popleft()) for number, each in enumerate(self.islands) if each.reports])

    def _merge(self, reports: list[tuple[int, Report]]) -> None:
        news = [self._take_in(number, report) for number, report in reports]
        self.merged += 1
        self._news[self.merged] = _joined(news)
        self._news.pop(self.merged - _AHEAD, None)

    def _take_in(self, number: int, report: Report) -> News:
        about = self.islands[number]
        before, known = self.queries - about.queries, len(self.archive)
        self.queries += report.queries - about.queries
        about.queries, about.state = report.queries, report.state
        about.ended, about.outcomes = about.ended or report.ended, report.outcomes
        if report.columns is None:
            return _nothing()
        columns = dict(report.columns)
        # as if the islands had asked one after the other
        columns["query"] = columns["query"] + before
        table = table_of(columns)
        numbers = self.archive.add(table)
        about.own.append(numbers)
        fresh, first = np.unique(numbers, return_index=True)
        rows = first[(fresh >= known) & (report.violation[first] == 0)]
        brought, _ = self.behaviours.add(
            table.images[rows], table.labels[rows], report.cells[rows], numbers[rows], query=self.queries
        )
        new = rows[brought == NEW_BEHAVIOUR]
        met = behaviours(table.labels[new], report.cells[new])
        # those that the models lie furthest apart on
        best = np.sort(new[np.argsort(-table.divergence[new], kind="stable")[: self._migrants]])
        if self._migrants == 0:
            met = met[:0]
        return News(
            np.full(len(best), number),
            numbers[best],
            report.cells[best],
            np.full(len(met), number),
            met,
            table[best] if len(best) else None,
        )

    def checkpoint(self) -> dict[str, Any]:
        """What a search goes on from, besides archive and behaviours: arrays and JSON values."""
        states = [each.state or b"" for each in self.islands]
        outcomes = [packed(each.outcomes) if each.outcomes else b"" for each in self.islands]
        own = [np.concatenate([*each.own, np.empty(0, dtype=np.int64)]) for each in self.islands]
        epochs = sorted(self._news)
        return {
            "island_epoch": self.merged,
            "island_granted": self.granted,
            "island_queries": [each.queries for each in self.islands],
            "island_ended": [each.ended for each in self.islands],
            "island_states": np.frombuffer(b"".join(states), dtype=np.uint8),
            "island_state_sizes": [len(each) for each in states],
            "island_outcomes": np.frombuffer(b"".join(outcomes), dtype=np.uint8),
            "island_outcome_sizes": [len(each) for each in outcomes],
            "island_triggers": np.concatenate(own).astype(np.int64),
            "island_trigger_counts": [len(each) for each in own],
            "news_epochs": epochs,
            **{
                f"news_{name}_{place}": getattr(self._news[epoch], name)
                for place, epoch in enumerate(epochs)
                for name in _KEPT
            },
        }

    def restore(self, state: Mapping[str, Any], triggers: TriggerTable) -> None:
        """Go on from what :meth:`checkpoint` gave.

        Args:
            triggers: all of the archive, as it was then.

        Raises:
            KeyError, TypeError, ValueError, IndexError: it is of another number of islands, or damaged.
        """
        self.merged, self.granted = int(state["island_epoch"]), int(state["island_granted"])
        states = _cut(state["island_states"], state["island_state_sizes"])
        owned = _cut(state["island_triggers"], state["island_trigger_counts"])
        outcomes = _cut(state["island_outcomes"], state["island_outcome_sizes"])
        for place, about in enumerate(self.islands):
            about.queries = int(state["island_queries"][place])
            about.ended = bool(state["island_ended"][place])
            about.state = states[place].tobytes() or None
            about.own = [owned[place]]
            about.outcomes = unpacked(outcomes[place].tobytes()) if len(outcomes[place]) else {}
        self.queries = int(state["queries"])
        for place, epoch in enumerate(state["news_epochs"]):
            kept = {name: state[f"news_{name}_{place}"] for name in _KEPT}
            table = triggers[kept["numbers"]] if len(kept["numbers"]) else None
            self._news[int(epoch)] = News(**kept, table=table)


def _cut(column: NDArray[Any], lengths: list[int]) -> list[NDArray[Any]]:
    """The pieces of one after the other. ValueError if they are not as long together."""
    ends = np.cumsum(lengths)
    if ends[-1] != len(column):
        raise ValueError("the pieces of a checkpoint are not as long as they should be")
    return np.split(column, ends[:-1])


_KEPT = ("islands", "numbers", "cells", "met_by", "met")


def _nothing() -> News:
    none = np.empty(0, dtype=np.int64)
    return News(none, none, none, none, np.empty((0, 0), dtype=np.int64), None)


def _joined(parts: list[News]) -> News:
    """What several islands brought in one epoch."""
    tables = [each.table for each in parts if each.table is not None]
    met = [each.met for each in parts if len(each.met)]
    islands, numbers, cells, met_by = (
        np.concatenate([getattr(each, name) for each in parts]) for name in ("islands", "numbers", "cells", "met_by")
    )
    return News(
        islands,
        numbers,
        cells,
        met_by,
        np.concatenate(met) if met else np.empty((0, 0), dtype=np.int64),
        TriggerTable.joined(tables) if tables else None,
    )
