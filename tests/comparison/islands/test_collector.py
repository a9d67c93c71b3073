"""The collector against a slow one that merges picture by picture."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffgen.comparison.islands.collector import Collector
from diffgen.comparison.islands.messages import Columns, Epoch, Report, table_of
from diffgen.config import IslandConfig
from diffgen.runs.arrays import packed, unpacked
from diffgen.runs.triggers import TriggerTable
from diffgen.search.archive import Archive
from diffgen.search.behaviours import Behaviours

_SHAPE = (1, 8, 8)
_ISLANDS, _EPOCHS = 3, 4
# what islands may find: pictures by number, so that several find the same one
_finds = st.lists(
    st.lists(st.lists(st.integers(0, 30), max_size=5, unique=True), min_size=_ISLANDS, max_size=_ISLANDS),
    min_size=_EPOCHS,
    max_size=_EPOCHS,
)


def table(pictures: list[int]) -> TriggerTable:
    """Triggers that are told by their numbers: image, labels and divergence follow from it."""
    images, answers = np.empty((len(pictures), *_SHAPE), np.uint8), np.full((len(pictures), 2, 4), 0.1, np.float32)
    for row, number in enumerate(pictures):
        images[row] = np.random.default_rng(number).integers(0, 256, _SHAPE)
        answers[row, 0, number % 2], answers[row, 1, 2 + number % 2] = 0.7, 0.7
    return TriggerTable.of(images, answers, divergence=np.array([number % 7 for number in pictures], dtype=np.float32))


def cell_of(number: int) -> int:
    return number % 3


def report(epoch: int, pictures: list[int], *, rejected: int = -1, ended: bool = False, **counted: int) -> Report:
    """An epoch of ten queries; the picture ``rejected`` is no valid one."""
    return Report(
        epoch,
        10 * epoch,
        table(pictures).columns() if pictures else None,
        np.array([cell_of(number) for number in pictures], dtype=np.int64),
        np.array([number == rejected for number in pictures], dtype=np.float32),
        packed({"epoch": epoch}),
        ended,
        counted,
    )


def collector(*, migrants: int = 2, saturation_queries: int | None = None) -> Collector:
    return Collector(
        IslandConfig(workers=_ISLANDS, migrants=migrants),
        Archive(_SHAPE),
        Behaviours(lambda images: np.zeros(len(images), dtype=np.int64), 0.98),
        margin=0.0,
        asks_filters=True,
        saturation_queries=saturation_queries,
    )


@settings(max_examples=40)
@given(finds=_finds, order=st.permutations(list(itertools.product(range(_EPOCHS), range(_ISLANDS)))))
def test_it_merges_as_a_slow_one_does_in_whatever_order_reports_come(
    finds: list[list[list[int]]], order: list[tuple[int, int]]
) -> None:
    merged = collector()
    # one island's reports come in their own order
    turns = {island: iter(range(_EPOCHS)) for island in range(_ISLANDS)}
    for _, island in order:
        epoch = next(turns[island])
        merged.islands[island].reports.append(report(epoch + 1, finds[epoch][island], rejected=5))
        while merged.merge():
            pass
    known: list[int] = []
    met: dict[tuple[int, int], tuple[int, int]] = {}
    new: list[list[tuple[int, int]]] = []
    for epoch, islands in enumerate(finds):
        new.append([])
        for island, pictures in enumerate(islands):
            for number in sorted(pictures, key=pictures.index):
                if number in known:
                    continue
                known.append(number)
                key = (number % 2, cell_of(number))
                if number != 5 and key not in met:
                    met[key] = (epoch, island)
                    new[-1].append((island, number))
    assert merged.queries == 10 * _EPOCHS * _ISLANDS
    assert merged.archive.digest() == (Archive(_SHAPE).digest() if not known else _archive(known).digest())
    assert len(merged.behaviours) == len(met)
    for island in range(_ISLANDS):
        told = merged.task(island, _EPOCHS + 2).migrants
        others = [(by, number) for by, number in new[-1] if by != island]
        assert (0 if told.met is None else len(told.met)) == len(others)
        wanted = []
        for by in range(_ISLANDS):
            own = [number for finder, number in others if finder == by]
            wanted += sorted(sorted(own, key=lambda number: -(number % 7))[:2], key=own.index)
        found = [] if told.columns is None else table_of(told.columns)
        assert [bytes(each) for each in (table(wanted).hashes if wanted else [])] == [
            bytes(each) for each in (found.hashes if isinstance(found, TriggerTable) else [])
        ]


def _archive(numbers: list[int]) -> Archive:
    archive = Archive(_SHAPE)
    archive.add(table(numbers))
    return archive


def test_queries_are_numbered_as_if_the_islands_had_asked_one_after_the_other() -> None:
    parts: list[TriggerTable] = []
    merged = collector()
    merged.archive = Archive(_SHAPE, sink=parts.append)
    for epoch in (1, 2):
        for island in range(_ISLANDS):
            one = report(epoch, [10 * epoch + island])
            assert one.columns is not None
            own = {**one.columns, "query": np.array([10 * (epoch - 1) + 3])}
            merged.islands[island].reports.append(Report(epoch, 10 * epoch, own, *_rest(one)))
        merged.merge()
    merged.archive.flush(everything=True)
    assert TriggerTable.joined(parts).query.tolist() == [3, 13, 23, 33, 43, 53]


def _rest(one: Report) -> tuple[np.ndarray, np.ndarray, bytes | None, bool]:
    return one.cells, one.violation, one.state, one.ended


def test_islands_may_be_one_epoch_ahead_of_what_is_merged() -> None:
    merged = collector()
    assert merged.granted == 2
    for island in range(_ISLANDS - 1):
        merged.islands[island].reports.append(report(1, []))
    assert not merged.merge()
    merged.islands[-1].reports.append(report(1, []))
    assert merged.merge()
    assert (merged.merged, merged.granted) == (1, 3)


def test_an_island_that_has_ended_is_not_waited_for() -> None:
    merged = collector()
    merged.islands[0].reports.append(report(1, [1], ended=True))
    for island in (1, 2):
        merged.islands[island].reports.append(report(1, []))
        merged.islands[island].reports.append(report(2, [], ended=True))
    assert merged.merge()
    assert merged.merge()
    assert merged.over
    assert merged.queries == 10 + 20 + 20


def test_a_saturated_search_grants_nothing_more() -> None:
    merged = collector(saturation_queries=30)
    for island in range(_ISLANDS):
        merged.islands[island].reports.append(report(1, [island]))
        merged.islands[island].reports.append(report(2, [island]))
    assert merged.merge()
    assert (merged.granted, merged.saturated) == (3, False)
    assert merged.merge()
    assert (merged.granted, merged.saturated, merged.over) == (3, True, False)
    for island in range(_ISLANDS):
        merged.islands[island].reports.append(report(3, []))
    assert merged.merge()
    assert merged.over


@given(finds=_finds)
@settings(max_examples=20)
def test_a_checkpoint_gives_back_what_islands_go_on_from(finds: list[list[list[int]]]) -> None:
    before, parts = collector(), list[TriggerTable]()
    before.archive = Archive(_SHAPE, sink=parts.append)
    for epoch, islands in enumerate(finds):
        for island, pictures in enumerate(islands):
            before.islands[island].reports.append(report(epoch + 1, pictures))
        assert before.merge()
    before.archive.flush(everything=True)
    triggers = TriggerTable.joined(parts) if parts else TriggerTable.empty(_SHAPE, 2, 4)
    kept = unpacked(packed({**before.checkpoint(), "queries": before.queries}))
    after = collector()
    after.restore(kept, triggers)
    assert (after.queries, after.merged, after.granted) == (before.queries, before.merged, before.granted)
    for island in range(_ISLANDS):
        one, other = (each.beginning(island, triggers, 1.0) for each in (before, after))
        assert one.state == other.state
        assert _digests(one.archive) == _digests(other.archive)
        for epoch in (_EPOCHS + 1, _EPOCHS + 2):
            assert _told(before.task(island, epoch)) == _told(after.task(island, epoch))


def test_a_checkpoint_keeps_what_ended_islands_counted() -> None:
    before = collector()
    for island in range(_ISLANDS):
        before.islands[island].reports.append(report(1, [island], ended=island < 2, **({"asked": 7} if island else {})))
    before.merge()
    kept = unpacked(packed({**before.checkpoint(), "queries": before.queries}))
    after = collector()
    after.restore(kept, table([0, 1, 2]))
    assert [each.outcomes for each in after.islands] == [{}, {"asked": 7}, {"asked": 7}]
    assert [each.ended for each in after.islands] == [True, True, False]


def _digests(columns: Columns | None) -> list[bytes]:
    return [] if columns is None else [bytes(each) for each in table_of(columns).hashes]


def _told(task: Epoch) -> tuple[object, ...]:
    met = task.migrants.met
    return _digests(task.migrants.columns), task.migrants.cells.tolist(), None if met is None else met.tolist()


@pytest.mark.parametrize("name", ["island_states", "island_outcome_sizes", "island_trigger_counts", "news_epochs"])
def test_a_damaged_checkpoint_is_refused(name: str) -> None:
    before = collector()
    for island in range(_ISLANDS):
        before.islands[island].reports.append(report(1, [island]))
    before.merge()
    kept = unpacked(packed({**before.checkpoint(), "queries": before.queries}))
    kept[name] = kept[name][:-1] if name != "news_epochs" else [9]
    if name == "news_epochs":
        del kept["news_numbers_0"]
    with pytest.raises((KeyError, ValueError, IndexError, TypeError)):
        collector().restore(kept, table([0, 1, 2]))
