"""Which triggers count, and what a behaviour is."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from diffgen.metrics.counting import (
    ACCEPTED,
    CONFIRMED_BATCH,
    CONFIRMED_SINGLE,
    NOT_VALID,
    UNCONFIRMED,
    is_counted,
    is_distinct,
    is_distinct_among,
    is_valid,
)


def test_which_count() -> None:
    confirmed = np.array([UNCONFIRMED, UNCONFIRMED, CONFIRMED_SINGLE, CONFIRMED_SINGLE, CONFIRMED_BATCH], np.int8)
    rejected_by = np.array([ACCEPTED, 0, ACCEPTED, 2, ACCEPTED])
    assert is_counted(confirmed).tolist() == [False, False, True, True, True]
    assert is_valid(confirmed, rejected_by).tolist() == [False, False, True, False, True]
    assert is_distinct(np.array([NOT_VALID, 1, 1, 3, NOT_VALID])).tolist() == [False, True, False, True, False]


@given(st.lists(st.tuples(st.integers(-1, 5), st.booleans()), max_size=30))
def test_of_some_that_repeat_each_other_the_first_is_kept(rows: list[tuple[int, bool]]) -> None:
    repeats = np.asarray([first for first, _ in rows], dtype=np.int64)
    some = np.asarray([chosen for _, chosen in rows], dtype=bool)
    seen: set[int] = set()
    wanted = []
    for first, chosen in rows:
        wanted.append(chosen and first != NOT_VALID and first not in seen)
        seen |= {first} if wanted[-1] else set()
    assert is_distinct_among(repeats, some).tolist() == wanted


def test_it_costs_no_torch() -> None:
    program = "import sys, diffgen.metrics.counting; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
