"""The table of triggers: its images part by part, and what a jury said of them."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.metrics.counting import ACCEPTED, CONFIRMED_SINGLE
from diffgen.runs import images as module
from diffgen.runs.images import ImageColumn, ImagePart
from diffgen.runs.triggers import UNNAMED, TriggerTable, Verdicts
from diffgen.tasks.classification import by_verdict
from diffgen.types import UInt8Array

_CLASSES = 4


def _table(
    said: list[tuple[int, int]], named: list[int] | None, recognised: list[bool], repeats: list[int]
) -> TriggerTable:
    """Valid triggers of two models; each repeats the first one of its number in ``repeats``."""
    rows = len(said)
    first = {number: repeats.index(number) for number in repeats}
    answers = np.zeros((rows, 2, _CLASSES), dtype=np.float32)
    for row, labels in enumerate(said):
        answers[row, [0, 1], labels] = 1
    jury = {}
    if named is not None:
        jury = {
            "named": np.asarray(named, dtype=np.int64),
            "certainty": np.zeros(rows, dtype=np.float32),
            "recognised": np.asarray(recognised),
        }
    verdicts = Verdicts(
        scores=np.empty((rows, 0), dtype=np.float32),
        rejected_by=np.full(rows, ACCEPTED),
        confirmed=np.full(rows, CONFIRMED_SINGLE, dtype=np.int8),
        cells=np.zeros(rows, dtype=np.int64),
        near_duplicate_of=np.asarray([first[number] for number in repeats]),
        **jury,
    )
    return TriggerTable.of(np.zeros((rows, 1, 2, 2), dtype=np.uint8), answers).judged(verdicts)


_ROWS = st.lists(
    st.tuples(
        st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(lambda pair: pair[0] != pair[1]),
        st.integers(0, 3),
        st.booleans(),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=12,
)


@given(_ROWS)
def test_every_kind_of_picture_has_one_verdict(rows: list[tuple[tuple[int, int], int, bool, int]]) -> None:
    said, named, recognised, repeats = (list(column) for column in zip(*rows, strict=True))
    table = _table(said, named, recognised, repeats)
    parts = table.distinct_by_verdict
    assert list(parts) == ["B", "A", "all", UNNAMED]
    kept = np.sum(list(parts.values()), axis=0)
    assert kept.max() <= 1
    roots = table.known.near_duplicate_of[kept.astype(bool)]
    assert sorted(roots.tolist()) == sorted(set(table.known.near_duplicate_of.tolist())), "each counts once"
    assert kept.sum() == table.distinct.sum()
    assert not (parts[UNNAMED] & table.recognised).any()
    assert table.recognised_distinct.sum() == kept.sum() - parts[UNNAMED].sum()
    for verdict, wrong in by_verdict(table.faults).items():
        assert not (parts[verdict] & ~wrong).any()


def test_without_a_jury_nobody_is_wrong() -> None:
    table = _table([(0, 1), (2, 3)], None, [], [0, 0])
    assert not table.has_jury and not table.recognised.any() and not table.faults.any()
    assert {verdict: rows.tolist() for verdict, rows in table.distinct_by_verdict.items()} == {UNNAMED: [True, False]}


def test_some_rows_keep_what_the_jury_said() -> None:
    table = _table([(0, 1), (2, 3), (1, 0)], [0, 3, 2], [True, True, False], [0, 1, 2])
    some = table[np.array([2, 0])]
    assert some.recognised.tolist() == [False, True]
    assert some.faults.tolist() == [[False, False], [False, True]]
    again = Verdicts.from_arrays(table.known.as_arrays())
    assert again.recognised is not None and again.recognised.tolist() == [True, True, False]


_SHAPE = (1, 2, 3)


def _pictures(count: int) -> UInt8Array:
    """uint8 (count, 1, 2, 3), no two alike as long as there are fewer than 256."""
    return np.arange(count, dtype=np.uint8)[:, None, None, None] + np.zeros(_SHAPE, dtype=np.uint8)


def _column(sizes: list[int], reads: Counter[int]) -> ImageColumn:
    """Pictures in parts; ``reads`` counts how often each part is read."""
    whole, parts, start = _pictures(sum(sizes)), [], 0
    for number, size in enumerate(sizes):
        parts.append(ImagePart(size, partial(_counted, reads, number, whole[start : start + size])))
        start += size
    return ImageColumn(parts, _SHAPE)


def _counted(reads: Counter[int], number: int, images: UInt8Array) -> UInt8Array:
    reads[number] += 1
    return images


@given(
    st.lists(st.integers(0, 5), max_size=6),
    st.data(),
    st.booleans(),
    st.integers(1, 4),
)
def test_it_gives_what_an_array_would(sizes: list[int], data: st.DataObject, read: bool, size: int) -> None:
    whole, column = _pictures(sum(sizes)), _column(sizes, Counter())
    for _ in range(3):  # some rows of some rows
        np.testing.assert_array_equal(np.concatenate([whole[:0], *column.batches(size)]), whole)
        assert len(column) == len(whole)
        if read:
            np.testing.assert_array_equal(column.all(), whole)
        numbers = st.integers(0, len(whole) - 1) if len(whole) else st.nothing()
        rows = np.asarray(data.draw(st.lists(numbers, max_size=8 if len(whole) else 0)), dtype=np.int64)
        np.testing.assert_array_equal(column.at(rows), whole[rows])
        column, whole = column.chosen(rows), whole[rows]
        np.testing.assert_array_equal(column.all() if read else column.at(np.arange(len(rows))), whole)


def test_no_part_is_read_before_it_is_asked_for_nor_twice_while_there_is_room() -> None:
    reads: Counter[int] = Counter()
    column = _column([4, 4, 4], reads)
    some = column.chosen(np.array([9, 1, 8]))
    assert not reads
    assert some.at(np.array([0, 2])).shape == (2, *_SHAPE) and reads == {2: 1}
    some.at(np.array([0, 1])), column.at(np.array([2]))
    assert reads == {0: 1, 2: 1}


def test_of_a_large_run_only_the_parts_that_were_read_last_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 2 * 4 * 6)  # bytes of two parts
    reads: Counter[int] = Counter()
    column = _column([4] * 5, reads)
    for batch in column.batches(2):
        assert len(batch) == 2
    assert reads == dict.fromkeys(range(5), 1)
    column.at(np.array([19, 13])), column.at(np.array([0]))
    assert reads == {0: 2, 1: 1, 2: 1, 3: 1, 4: 1}


def test_what_some_rows_were_chosen_from_is_let_go_when_these_are_read() -> None:
    column = ImageColumn.of(_pictures(100)).chosen(np.array([3]))
    assert column.all().base is None and column.all().nbytes == 6
    assert column.at(np.array([0])).tolist() == _pictures(4)[3:].tolist()
