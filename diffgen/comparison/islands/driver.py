"""Runs a search on islands: starts workers, hands out epochs, replaces who dies, keeps what is found."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from diffgen.comparison.announcements import Announcements
from diffgen.comparison.checkpoints import Checkpointer, newest_usable, read_state
from diffgen.comparison.islands.begin import make_pool, refusal
from diffgen.comparison.islands.collector import Collector
from diffgen.comparison.islands.island import config_of, ready, search_island
from diffgen.comparison.islands.messages import Ready, Report, Tick
from diffgen.comparison.plan import Prepared
from diffgen.comparison.technique_run import (
    SearchOutcome,
    count_of_behaviours,
    filters_are_asked,
    finished_before,
    write_outcomes,
)
from diffgen.config import replace
from diffgen.errors import RunError, UserError
from diffgen.pool.calls import Ended, Failed, Pool, Said
from diffgen.search.archive import Archive
from diffgen.techniques import technique_class

ATTEMPTS = 3  # of an island in a row, without a report in between, until it is given up
ATTEMPTS_OF_DEAD = 10  # where its workers die without a word, which may be nobody's fault in the run
SECONDS_TO_START = 600.0
_SECONDS_TO_STOP = 60.0
_LONGEST_PAUSE = 60.0
_SECONDS_BETWEEN_LOOKS = 0.25


class Live:
    """How far a search is; what :class:`diffgen.comparison.announcements.Announcements` asks of a loop.

    Args:
        seconds: tells how long it has searched.
    """

    def __init__(self, collector: Collector, seconds: Callable[[], float]) -> None:
        self._collector, self._seconds = collector, seconds
        self._asked: dict[int, int] = {}
        self.archive, self.behaviours = collector.archive, collector.behaviours
        self.asks_filters, self.saturation_queries = collector.asks_filters, collector.saturation_queries

    def tick(self, number: int, tick: Tick) -> None:
        """Take in how far an island is."""
        # a worker that does again what another had not reported has been that far before
        self._asked[number] = max(tick.queries, self._asked.get(number, 0))

    @property
    def evaluator(self) -> Self:
        """The same: it counts what was asked, and the collector what was merged."""
        return self

    @property
    def seconds(self) -> float:
        """Seconds of searching so far."""
        return self._seconds()

    @property
    def queries(self) -> int:
        """Queries of all islands."""
        islands = self._collector.islands
        return sum(max(each.queries, self._asked.get(number, 0)) for number, each in enumerate(islands))


def search_on_islands(prepared: Prepared) -> SearchOutcome:
    """Search until the budget is used up or the user stops it; resume from the folder's checkpoint if there is one.

    Raises:
        UserError: the workers cannot begin where they run, or another version of diffgen wrote the checkpoint.
        RunError: no worker is left, or the disk is full; what was reported until then is in the folder.
    """
    found = newest_usable(prepared.folder, prepared.progress)
    if found is not None and found[0].get("finished", False):
        return finished_before(prepared, *found)
    if found is not None:
        # what counts as a trigger must not change within a run
        real, margin = prepared.real, found[0].get("margin", prepared.real.summary.margin)
        prepared = replace(prepared, real=replace(real, summary=replace(real.summary, margin=margin)))
    pool, job = make_pool(prepared)
    try:
        driver = Driver(prepared, pool, job)
        if found is not None:
            driver.restore(*found)
        return driver.run()
    finally:
        pool.close()


@dataclass(frozen=True)
class _GivenUp:
    """When an island was given up.

    Attributes:
        anew: it is to begin anew when it is tried again: where its last report ended it would come to the same error.
    """

    queries: int
    anew: bool


class Driver:
    """One search on islands.

    Args:
        pool: where its workers run.
        job: what each is handed.
    """

    def __init__(self, prepared: Prepared, pool: Pool, job: Any) -> None:
        config = prepared.config
        self._prepared, self._pool, self._job = prepared, pool, job
        self._archive = Archive(prepared.images.image_shape, sink=prepared.folder.write_part)
        self.evaluator = Collector(
            config.islands,
            self._archive,
            count_of_behaviours(prepared),
            margin=prepared.real.summary.margin,
            asks_filters=filters_are_asked(prepared),
            saturation_queries=config.saturation_queries if config.until == "saturated" else None,
        )
        count = config.islands.workers
        self._outcome = SearchOutcome()
        self._checkpointer = Checkpointer(prepared.folder, self.evaluator, self, self._outcome.history)
        self._live = Live(self.evaluator, lambda: self.seconds)
        self._attempts = [0] * count
        self._reported = [0] * count  # latest epoch of each worker
        self._begun: dict[int, int] = {}  # worker -> latest epoch that it was told to search
        self._idle: set[int] = set()  # ready, and not told where to begin
        self._starting: dict[int, float] = {}
        self._again: dict[int, float] = {}  # worker -> when it is started again
        self._given_up: dict[int, _GivenUp] = {}  # also those that were tried again
        self._before = 0.0
        self._started: float | None = None
        self._own = ready(prepared)  # what every worker has to work with, too

    @property
    def seconds(self) -> float:
        """Seconds of searching so far."""
        return self._before if self._started is None else self._before + time.monotonic() - self._started

    @property
    def saturated(self) -> bool:
        """Whether too long nothing new was found."""
        return self.evaluator.saturated

    def restore(self, state: Mapping[str, Any], triggers: Any) -> None:
        """Go on from a checkpoint.

        Raises:
            UserError: another version of diffgen wrote it, or it is not of a search on as many islands.
        """
        self._archive.restore(triggers)
        with read_state(self._prepared.folder):
            self.evaluator.behaviours.restore(state, self._archive)
            self.evaluator.restore(state, triggers)
            self._before = float(state["seconds"])
            self._outcome.history.update(state["history"])
        queries = self.evaluator.queries
        self._prepared.progress.say(f"Going on after {queries:,} queries and {len(self._archive):,} triggers.")

    def run(self) -> SearchOutcome:
        """The whole search; see :func:`search_on_islands`."""
        prepared, outcome, collector = self._prepared, self._outcome, self.evaluator
        progress, config, folder = prepared.progress, prepared.config, prepared.folder
        self._start_all()
        by_time = config.budget.seconds is not None
        total = config.budget.seconds if by_time else config.budget.queries
        with progress.stage("Searching for disagreements", total=total) as stage, progress.stop.heeding():
            announce = Announcements(progress, stage, self._live, folder.path, by_time=by_time)
            self._started = time.monotonic()
            try:
                while not progress.stop.stopped and (not collector.over or self._try_given_up()):
                    self._hand_out()
                    self._hear(self._pool.events(_SECONDS_BETWEEN_LOOKS))
                    self._check_starts()
                    for number in [each for each, when in self._again.items() if when <= time.monotonic()]:
                        del self._again[number]
                        self._start(number)
                    while collector.merge():
                        self._checkpointer.after_generation()
                    announce()
                if progress.stop.stopped:
                    self._stop()
            except BaseException as error:
                self._keep_what_was_found(error)
                raise
            outcome.queries, outcome.seconds = collector.queries, self.seconds
            outcome.interrupted, outcome.saturated = progress.stop.stopped, collector.saturated
            self._conclude()
            announce()
        outcome.images = self._archive.image_column()
        return outcome

    # -- workers -----------------------------------------------------------------------------------------------------

    def _start(self, number: int) -> None:
        self._starting[number] = time.monotonic()
        self._pool.start(number, search_island, self._job, number)

    def _start_all(self) -> None:
        """Start the workers, and wait until all have opened everything.

        Raises:
            UserError: one cannot.
            RunError: one does not come up.
        """
        numbers = [number for number, each in enumerate(self.evaluator.islands) if each.searches]
        refusals: list[Failed] = []
        progress = self._prepared.progress
        with progress.stage(f"Starting {len(numbers)} workers", total=len(numbers)) as stage:
            for number in numbers:
                self._start(number)
            while self._starting:
                for number, event in self._pool.events(_SECONDS_BETWEEN_LOOKS):
                    if not isinstance(event, Ended) or event.failure is None:
                        self._take(number, event)
                        continue
                    failure = event.failure
                    self._starting.pop(number, None)
                    self._attempts[number] += 1
                    if not failure.by_user and self._attempts[number] < _patience(failure):
                        text = failure.text.rstrip(".")
                        progress.warn(f"Worker {number + 1} did not come up ({text}); trying again.")
                        self._start(number)
                    else:
                        refusals.append(Failed(f"Worker {number + 1} cannot begin: {failure.text}", failure.by_user))
                self._check_starts()
                stage.reach(len(self._idle))
        if refusals:
            text = "; ".join(dict.fromkeys(each.text.rstrip(".") for each in refusals))
            raise (UserError if any(each.by_user for each in refusals) else RunError)(f"{text}.")

    def _check_starts(self) -> None:
        late = [number for number, since in self._starting.items() if time.monotonic() - since > SECONDS_TO_START]
        for number in late:
            self._pool.end(number)
            self._failed(number, Failed(f"it was not ready after {SECONDS_TO_START:g} s"))

    def _hand_out(self) -> None:
        """Tell every worker what it may do by now."""
        collector = self.evaluator
        for number in sorted(self._idle):
            # what it has reported before it died is merged first: there it goes on
            if not collector.islands[number].reports:
                self._idle.discard(number)
                self._pool.tell(number, collector.beginning(number, self._triggers(), self.seconds))
                self._begun[number] = collector.merged
        for number, latest in self._begun.items():
            for epoch in range(latest + 1, collector.granted + 1):
                self._pool.tell(number, collector.task(number, epoch))
            self._begun[number] = collector.granted

    def _triggers(self) -> Any:
        """All triggers, as an island that begins again needs some of them."""
        self._archive.flush(everything=True)
        return self._prepared.folder.read_triggers(images=self._archive.image_column())

    def _hear(self, events: list[tuple[int, Any]]) -> None:
        for number, event in events:
            self._take(number, event)

    def _take(self, number: int, event: Any) -> None:
        if isinstance(event, Ready):
            self._starting.pop(number, None)
            if (why := refusal(self._own, event)) is not None:
                self._pool.end(number)
                self._failed(number, Failed(why, by_user=True))
            else:
                self._idle.add(number)
        elif isinstance(event, Tick):
            self._live.tick(number, event)
        elif isinstance(event, Said):
            progress = self._prepared.progress
            (progress.warn if event.warning else progress.say)(f"Worker {number + 1}: {event.text}")
        elif isinstance(event, Report):
            self._attempts[number], self._reported[number] = 0, event.epoch
            self.evaluator.islands[number].reports.append(event)
            self._live.tick(number, Tick(event.queries, 0))
            if event.exhausted:
                self._prepared.progress.warn(f"Worker {number + 1}: model {event.exhausted} may not be asked further.")
            if event.ended:
                self._begun.pop(number, None)
                self._pool.end(number)
        elif event.failure is not None:
            self._failed(number, event.failure)

    def _failed(self, number: int, event: Failed) -> None:
        """Let another worker take the place of one that is gone, or give the island up."""
        collector, warn = self.evaluator, self._prepared.progress.warn
        was_begun = self._begun.pop(number, None) is not None
        self._starting.pop(number, None)
        self._idle.discard(number)
        if self._started is None:
            raise (UserError if event.by_user else RunError)(f"Worker {number + 1} cannot begin: {event.text}")
        island = collector.islands[number]
        if self._prepared.progress.stop.stopped or island.ended or any(each.ended for each in island.reports):
            return
        self._attempts[number] += 1
        text, attempts = event.text.rstrip("."), self._attempts[number]
        if attempts < _patience(event):
            what = "searched" if was_begun else "started"
            warn(
                f"Worker {number + 1} broke off while it {what} ({text}); another one takes its place and does again "
                "what it had not reported."
            )
            self._again[number] = time.monotonic() + _pause(attempts)
            return
        self._give_up(number, f"broke off {attempts} times in a row", text, anew=not event.died)

    def _give_up(self, number: int, what: str, why: str, *, anew: bool) -> None:
        """Let the others go on without an island, until they have ended. RunError if there are no others."""
        collector, config, warn = self.evaluator, self._prepared.config, self._prepared.progress.warn
        island = collector.islands[number]
        share = config_of(config, number, len(collector.islands)).budget.queries
        left = "" if share is None else f"{share - island.reported:,} queries"
        tried = self._given_up.get(number)
        if tried is not None and tried.queries == island.reported:
            island.ended = True
            warn(f"Worker {number + 1} {what} once more ({why})" + (f"; {left} are not asked." if left else "."))
            return
        self._given_up[number] = _GivenUp(island.reported, anew)
        island.given_up = True
        if all(each.given_up for each in collector.islands):
            raise RunError(f"No worker is left; the last one {what}: {why}.")
        later = f", and its {left} are asked when they have ended" if left else ""
        warn(f"Worker {number + 1} {what} ({why}); the search goes on with the others{later}.")

    def _try_given_up(self) -> bool:
        """Start the islands that were given up, once the others have ended; False: there is nothing left to do."""
        collector, limit = self.evaluator, self._prepared.config.budget.seconds
        if collector.saturated or (limit is not None and self.seconds >= limit):
            return False
        numbers = [number for number, each in enumerate(collector.islands) if each.given_up]
        for number in numbers:
            island = collector.islands[number]
            island.given_up, self._attempts[number] = False, 0
            if self._given_up[number].anew:
                island.state, island.anew = None, True
            self._start(number)
        return bool(numbers)

    def _stop(self) -> None:
        """Let all workers end in good order, and merge what they report."""
        self._pool.stop()
        given_up = time.monotonic() + _SECONDS_TO_STOP
        while self._busy() and time.monotonic() < given_up:
            self._hear(self._pool.events(_SECONDS_BETWEEN_LOOKS))
        # without a checkpoint: epochs that were cut short are searched again when the run is resumed
        self.evaluator.merge_rest()

    def _busy(self) -> bool:
        """Whether a worker has something to do that it has not reported."""
        return any(epoch > self._reported[number] for number, epoch in self._begun.items())

    # -- what is kept ------------------------------------------------------------------------------------------------

    def _conclude(self) -> None:
        collector, progress = self.evaluator, self._prepared.progress
        self._checkpointer.record()
        outcomes = [each.outcomes for each in collector.islands if each.outcomes]
        if outcomes:
            technique = technique_class(self._prepared.config.technique)
            write_outcomes(self._prepared, technique.joined_outcomes(outcomes))
        if progress.stop.stopped:
            self._archive.flush(everything=True)
            return
        if collector.saturated:
            queries = self._prepared.config.saturation_queries
            progress.say(f"The search ends here: no new behaviour in the last {queries:,} queries.")
        self._checkpointer.finish()

    def _keep_what_was_found(self, error: BaseException) -> None:
        """Write what was reported; another error on the way must not hide the first."""
        try:
            self.evaluator.merge_rest()
            self._archive.flush(everything=True)
        except RunError as second:
            error.add_note(str(second))


def _patience(event: Failed) -> int:
    """How many workers in a row may fail so."""
    return ATTEMPTS_OF_DEAD if event.died else ATTEMPTS


def _pause(attempts: int) -> float:
    """Seconds until a worker is started again that broke off so many times in a row: none at first."""
    return 0.0 if attempts < ATTEMPTS else min(_LONGEST_PAUSE, 2.0 ** (attempts - ATTEMPTS))
