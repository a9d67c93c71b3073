"""Which triggers count, and what a behaviour is."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from diffgen.metrics.counting import (
    ACCEPTED,
    CONFIRMED_BATCH,
    CONFIRMED_SINGLE,
    NOT_VALID,
    UNCONFIRMED,
    behaviour_keys,
    is_counted,
    is_distinct,
    is_valid,
)


def test_which_count() -> None:
    confirmed = np.array([UNCONFIRMED, UNCONFIRMED, CONFIRMED_SINGLE, CONFIRMED_SINGLE, CONFIRMED_BATCH], np.int8)
    rejected_by = np.array([ACCEPTED, 0, ACCEPTED, 2, ACCEPTED])
    assert is_counted(confirmed).tolist() == [False, False, True, True, True]
    assert is_valid(confirmed, rejected_by).tolist() == [False, False, True, False, True]
    assert is_distinct(np.array([NOT_VALID, 1, 1, 3, NOT_VALID])).tolist() == [False, True, False, True, False]


def test_a_behaviour_is_what_the_models_say_and_the_cell() -> None:
    keys = behaviour_keys(np.array([[1, 2], [2, 1]]), np.array([7, 7]))
    assert keys.tolist() == [[1, 2, 7], [2, 1, 7]]
    assert behaviour_keys(np.empty((0, 2), np.int64), np.empty(0, np.int64)).shape == (0, 3)
    assert keys.dtype == np.int64


def test_it_costs_no_torch() -> None:
    program = "import sys, diffgen.metrics.counting; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
