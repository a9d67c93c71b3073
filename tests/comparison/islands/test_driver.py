"""Searches on islands: the same whoever is faster, whoever dies, and wherever they break off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.comparison.islands import driver
from diffgen.comparison.islands.begin import job_of
from diffgen.comparison.islands.driver import ATTEMPTS_OF_DEAD, _pause
from diffgen.comparison.islands.island import Island, config_of
from diffgen.comparison.islands.messages import Begin, Epoch, Migrants, Report
from diffgen.comparison.plan import Objects, Prepared
from diffgen.comparison.technique_run import SearchOutcome, make_loop
from diffgen.config import Budget, replace
from diffgen.errors import RunError
from diffgen.events import StageAdvanced, StopToken
from diffgen.pool.calls import Ended, Failed, Link
from diffgen.runs.folder import RunFolder
from diffgen.search.archive import Archive
from diffgen.search.loop import SearchLoop
from diffgen.search.proposal import Answers, Proposal
from diffgen.techniques import technique_class
from diffgen.techniques.diffgan import DiffGan
from tests.comparison.islands.conftest import CONFIG, Search
from tests.comparison.islands.in_turn import InTurn
from tests.recording import Recording

Finished = tuple[SearchOutcome, dict[str, Any]]
Make = Callable[..., Search]
_GENERATION = 20
_LAST_EPOCH = 6  # of a share of 201 queries


def _dies_in_the_third(number: int, epoch: Epoch) -> bool:
    """A worker that comes to an error each time."""
    return (number, epoch.number) == (1, 3)


def assert_same(search: Search, outcome: SearchOutcome, finished: Finished) -> None:
    """Every column of every trigger, and the curves but for the seconds."""
    wanted, columns = finished
    assert outcome.queries == wanted.queries
    assert outcome.history["queries"] == wanted.history["queries"]
    assert outcome.history["triggers"] == wanted.history["triggers"]
    found = search.columns
    assert found.keys() == columns.keys()
    for name, column in columns.items():
        np.testing.assert_array_equal(found[name], column, err_msg=name)


# -- what a run on islands is ----------------------------------------------------------------------------------------


def test_the_budget_is_shared_out_and_nothing_counts_twice(finished: Finished) -> None:
    outcome, found = finished
    assert outcome.queries == 401
    assert len(found["hashes"]) > 20
    assert len({digest.tobytes() for digest in found["hashes"]}) == len(found["hashes"])
    assert found["query"].min() >= 1
    assert found["query"].max() <= outcome.queries
    assert outcome.history["queries"] == sorted(outcome.history["queries"])


def test_islands_have_shares_of_the_queries_and_seeds_of_their_own() -> None:
    configs = [config_of(CONFIG, island, 2) for island in range(2)]
    assert [each.budget.queries for each in configs] == [201, 200]
    assert len({each.seed for each in configs}) == 2
    assert configs == [config_of(CONFIG, island, 2) for island in range(2)]


def test_it_is_the_same_whoever_is_faster_with_one_bar_for_all(search: Make, finished: Finished) -> None:
    run = search()
    assert_same(run, run(seed=1), finished)
    bars = [each for each in run.listener.events if isinstance(each, StageAdvanced) and "Searching" in each.name]
    done = [each.done for each in bars]
    assert done == sorted(done)
    assert done[-1] == 401
    assert bars[-1].figures["triggers"] == len(run.columns["query"])


def test_migrants_change_what_is_found_but_not_before_the_third_epoch(search: Make, finished: Finished) -> None:
    run = search(config=replace(CONFIG, islands=replace(CONFIG.islands, migrants=0)))
    outcome = run()
    found, wanted = run.columns, finished[1]
    early = wanted["query"] <= 2 * 2 * CONFIG.islands.generations * _GENERATION
    assert outcome.queries == 401
    np.testing.assert_array_equal(found["images"][: early.sum()], wanted["images"][early])
    assert {each.tobytes() for each in found["hashes"]} != {each.tobytes() for each in wanted["hashes"]}


def test_what_others_found_leaves_the_reward_of_recognised_pictures(search: Make) -> None:
    run = search()
    job = job_of(replace(run.prepared, folder=RunFolder.open(run.run), objects=Objects(run.networks)))
    first, second = (Island(Link(lambda said: None), job, number) for number in range(2))
    for island in (first, second):
        island.begin(Begin(None, None, 0.0))
    report = first.epoch(Epoch(1, Migrants()))
    assert report is not None
    assert report.columns is not None
    second._welcome(Migrants(report.columns, report.cells))
    behaviours = second._loop.evaluator.behaviours
    assert behaviours is not None
    known = behaviours.checkpoint()
    assert len(known["behaviours"]) > 0
    assert len(known["behaviours_named"]) == 0


def test_a_technique_that_has_asked_about_everything_ends_its_island(
    search: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def enough(reported: int) -> None:
        assert reported < 12, "there are epochs without an end"

    has_enough = property(lambda technique: len(technique.context.archive) >= 5)
    monkeypatch.setattr(technique_class("diffgan"), "finished", has_enough)
    outcome = search()(after_report=enough)
    assert 0 < outcome.queries < 401


def test_workers_that_propose_nothing_any_more_are_given_up(search: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffgen.search.loop._MOST_EMPTY", 50)
    propose, learn = DiffGan.propose, DiffGan.learn
    nothing = Proposal(torch.empty(0, 1, 28, 28, dtype=torch.uint8), generation=9)

    def proposes(technique: DiffGan, room: int) -> Proposal:
        return nothing if len(technique.context.archive) >= 5 else propose(technique, room)

    def learns(technique: DiffGan, proposal: Proposal, answers: Answers) -> None:
        if proposal is not nothing:
            learn(technique, proposal, answers)

    def enough(reported: int) -> None:
        assert reported < 200, "there are epochs without an end"

    monkeypatch.setattr(DiffGan, "propose", proposes)
    monkeypatch.setattr(DiffGan, "learn", learns)
    run = search()
    with pytest.raises(RunError, match="proposed no image 50 times in a row; let its"):
        run(after_report=enough)
    assert len(run.columns["images"]) >= 5


# -- faults ----------------------------------------------------------------------------------------------------------


def test_workers_that_die_change_nothing(search: Make, finished: Finished) -> None:
    rng, died = np.random.default_rng(3), list[tuple[int, int]]()

    def dies(number: int, epoch: Epoch) -> bool:
        if rng.random() < 0.4 and died[-2:] != [(number, epoch.number)] * 2:
            died.append((number, epoch.number))
            return True
        return False

    run = search()
    assert_same(run, run(dies=dies), finished)
    assert len(died) > 3
    assert sum("another one takes its place" in line for line in run.listener.warnings) == len(died)


def test_a_worker_that_does_not_come_up_is_tried_again(
    search: Make, finished: Finished, told: Callable[..., None]
) -> None:
    tried: list[int] = []

    def starts(number: int) -> bool:
        tried.append(number)
        return tried.count(number) == (3 if number == 0 else 1)

    run = search()
    assert_same(run, run(starts=starts), finished)
    told("Workers", "one does not come up: a warning, and it is tried again", run.listener.warnings[0])
    with pytest.raises(RunError) as caught:
        search("never")(starts=lambda number: number == 1)
    told("Workers", "one never comes up", caught.value)


def test_a_share_that_one_cannot_ask_is_asked_when_the_others_have_ended(
    search: Make, finished: Finished, told: Callable[..., None]
) -> None:
    run = search()
    outcome = run(dies=_dies_in_the_third)
    assert outcome.queries == 401
    told("Workers", "one breaks off and another takes its place: a warning", run.listener.warnings[0])
    told("Workers", "one breaks off again and again: a warning, the others go on", run.listener.warnings[-1])
    found, wanted = run.columns, finished[1]
    assert len({digest.tobytes() for digest in found["hashes"]}) == len(found["hashes"])
    # it began anew, with another seed
    assert {each.tobytes() for each in found["hashes"]} != {each.tobytes() for each in wanted["hashes"]}
    again = search("again")
    assert_same(again, again(seed=1, dies=_dies_in_the_third), (outcome, found))


def test_a_share_that_breaks_off_before_its_first_report_is_begun_anew_with_another_seed(
    search: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []

    def make(prepared: Prepared, archive: Archive, *, margin: float) -> SearchLoop:
        seeds.append(prepared.config.seed)
        return make_loop(prepared, archive, margin=margin)

    monkeypatch.setattr("diffgen.comparison.islands.island.make_loop", make)
    outcome = search()(dies=lambda number, epoch: (number, epoch.number) == (1, 1))
    assert outcome.queries == 401
    assert len(set(seeds[:-1])) == CONFIG.islands.workers
    assert seeds[-1] not in seeds[:-1]


@pytest.mark.slow
@pytest.mark.usefixtures("checkpoint_after_every_epoch")
def test_a_driver_that_is_gone_while_a_share_is_asked_anew(search: Make) -> None:
    whole, broken = search("whole"), search()
    outcome = whole(dies=_dies_in_the_third)

    def gone(reported: int) -> None:
        if reported > _LAST_EPOCH + 1:
            raise MemoryError

    with pytest.raises(MemoryError):
        broken(dies=_dies_in_the_third, after_report=gone)
    assert_same(broken, broken(), (outcome, whole.columns))


def test_a_share_that_nobody_can_ask_is_named_and_the_run_ends(search: Make, told: Callable[..., None]) -> None:
    run = search()
    outcome = run(dies=lambda number, epoch: number == 1 and epoch.number > 2)
    # what the island had reported counts: two epochs
    assert outcome.queries == 201 + 2 * CONFIG.islands.generations * _GENERATION
    told("Workers", "one breaks off also when the others have ended: a warning", run.listener.warnings[-1])


@pytest.mark.parametrize("kills", [ATTEMPTS_OF_DEAD - 1, ATTEMPTS_OF_DEAD])
def test_a_worker_that_is_killed_again_and_again(
    search: Make, finished: Finished, kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, waits = [kills], list[float]()

    def dies(number: int, epoch: Epoch) -> bool:
        left[0] -= (number, epoch.number) == (1, 3)
        return (number, epoch.number) == (1, 3) and left[0] >= 0

    def short(attempts: int) -> float:
        waits.append(_pause(attempts))
        return 0.0

    monkeypatch.setattr(driver, "_pause", short)
    run = search()
    outcome = run(dies=dies, killed=True)
    assert outcome.queries == 401
    assert waits == [0, 0, 1, 2, 4, 8, 16, 32, 60]
    if kills < ATTEMPTS_OF_DEAD:
        assert_same(run, outcome, finished)
    else:  # the others did not wait for it, but it goes on where it was
        assert "another" not in run.listener.warnings[-1]


def test_no_worker_left_keeps_what_was_reported(search: Make, finished: Finished, told: Callable[..., None]) -> None:
    run = search()
    with pytest.raises(RunError) as caught:
        run(dies=lambda number, epoch: epoch.number == 3)
    told("Workers", "all break off again and again", caught.value)
    kept, wanted = run.columns["images"], finished[1]["images"]
    assert len(kept) > 0
    np.testing.assert_array_equal(kept, wanted[: len(kept)])
    assert_same(run, run(), finished)


def test_a_worker_that_dies_after_its_last_report_is_not_missed(search: Make, finished: Finished) -> None:
    class DiesAtTheEnd(InTurn):
        def events(self, seconds: float) -> list[tuple[int, Any]]:
            found = super().events(seconds)
            ended = [number for number, event in found if isinstance(event, Report) and event.ended]
            return [*found, *((number, Ended(Failed("it was ended by a test"))) for number in ended)]

    run = search()
    assert_same(run, run.on(DiesAtTheEnd()), finished)
    assert run.listener.warnings == []


@pytest.mark.parametrize(("epoch", "margin"), [(1, None), (3, 0.9)])
@pytest.mark.usefixtures("checkpoint_after_every_epoch")
def test_a_driver_that_is_gone_can_be_resumed(
    search: Make, finished: Finished, epoch: int, margin: float | None
) -> None:
    def gone(reported: int) -> None:
        if reported > epoch:
            raise MemoryError

    run = search()
    with pytest.raises(MemoryError):
        run(after_report=gone)
    if margin is not None:  # what counts as a trigger stays what it was when the search began
        real = run.prepared.real
        run.prepared = replace(run.prepared, real=replace(real, summary=replace(real.summary, margin=margin)))
    assert_same(run, run(seed=epoch), finished)


@pytest.mark.usefixtures("checkpoint_after_every_epoch")
def test_a_search_that_is_stopped_ends_in_good_order_and_goes_on(search: Make, finished: Finished) -> None:
    stop = StopToken()
    run = search(listener=Recording(stop))
    outcome = run(after_report=lambda epoch: stop.stop() if epoch == 2 else None)
    assert outcome.interrupted
    assert 0 < outcome.queries < 401
    run.listener = Recording()
    assert_same(run, run(), finished)


def test_saturation_is_that_of_all_islands(search: Make) -> None:
    config = replace(CONFIG, until="saturated", saturation_queries=30, budget=Budget(queries=20_000))
    outcome = search(config=config)()
    assert outcome.saturated
    assert outcome.queries < 20_000


def test_what_a_technique_counted_is_kept_also_where_its_islands_were_not_done(
    search: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DiffGan, "outcomes", lambda technique: {"finds": np.array([len(technique.context.archive)])})
    run = search(config=replace(CONFIG, until="saturated", saturation_queries=30, budget=Budget(queries=20_000)))
    assert run().saturated
    assert (RunFolder.open(run.run).read_arrays("outcomes")["finds"] > 0).sum() == CONFIG.islands.workers
