"""The column of images: what it gives, and what of it stays in memory."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.runs import images as module
from diffgen.runs.images import ImageColumn, ImagePart
from diffgen.types import UInt8Array

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
