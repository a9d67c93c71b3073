"""What a search says about itself while it runs: events with raw numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from diffgen.events import BehaviourFound, Progress, Stage, TriggersFound
from diffgen.search.loop import SearchLoop

if TYPE_CHECKING:
    from diffgen.comparison.islands.driver import Live


class Announcements:
    """Call it after every proposal that the models were asked about, and once at the end.

    Args:
        progress: where the events go.
        stage: the search, as a part of the work.
        by_time: whether the stage is measured in seconds; otherwise in queries.
    """

    def __init__(self, progress: Progress, stage: Stage, loop: SearchLoop | Live, run: Path, *, by_time: bool) -> None:
        self._progress = progress
        self._stage = stage
        self._loop = loop
        self._run = run
        self._by_time = by_time
        self._triggers = (0, 0)
        self._behaviours = 0

    def __call__(self) -> None:
        """Send how far the search is, and what is new."""
        evaluator = self._loop.evaluator
        self._stage.reach(self._loop.seconds if self._by_time else evaluator.queries, **self._figures())
        triggers = len(evaluator.archive), evaluator.archive.written
        if triggers != self._triggers:
            self._triggers = triggers
            self._progress.send(TriggersFound(*triggers, evaluator.queries, self._run))
        behaviours = 0 if evaluator.behaviours is None else len(evaluator.behaviours)
        if behaviours > self._behaviours:
            self._behaviours = behaviours
            self._progress.send(BehaviourFound(behaviours, evaluator.queries))

    def _figures(self) -> dict[str, float]:
        """What is known; where the filters are asked after the search only, nobody can count behaviours in it."""
        evaluator, seconds = self._loop.evaluator, max(self._loop.seconds, 1e-3)
        triggers, found = len(evaluator.archive), evaluator.behaviours
        figures: dict[str, float] = {
            "queries_per_s": evaluator.queries / seconds,
            "triggers": triggers,
            "triggers_per_s": triggers / seconds,
        }
        if found is None:
            return figures
        if evaluator.asks_filters and triggers > 0:
            figures["valid_share"] = found.pictures / triggers
        figures["behaviours" if evaluator.asks_filters else "kinds_of_triggers"] = len(found)
        if self._loop.saturation_queries is not None:
            figures["queries_since_new"] = evaluator.queries - found.latest_query
        if evaluator.asks_filters:
            figures["label_pairs"] = found.label_pairs
        return figures
