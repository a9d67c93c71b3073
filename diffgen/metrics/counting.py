"""Which triggers count: the one place that says so.

A trigger counts once the models, asked again, gave the labels that they gave in the search. It is valid when it counts
and no filter rejected it, and distinct when it is valid and no near-duplicate of an earlier one. Behaviours
(:mod:`diffgen.tasks.classification`) are those of the distinct valid triggers. Of what the jury recognises the same is
counted once more: a recognised trigger is distinct when it is valid and no near-duplicate of an earlier recognised one.
The arrays are columns of ``verdicts.npz`` in a run folder.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from diffgen.types import BoolArray, Int64Array

UNCONFIRMED, CONFIRMED_SINGLE, CONFIRMED_BATCH = 0, 1, 2
ACCEPTED = -1  # in place of the number of the filter that rejected a picture
NOT_VALID = -1  # in place of the number of the picture that a valid trigger repeats


def is_counted(confirmed: NDArray[np.int8]) -> BoolArray:
    """bool (N,): which triggers disagreed again.

    Args:
        confirmed: int8 (N,): ``UNCONFIRMED``, ``CONFIRMED_SINGLE`` or ``CONFIRMED_BATCH``.
    """
    return np.asarray(confirmed != UNCONFIRMED)


def is_valid(confirmed: NDArray[np.int8], rejected_by: Int64Array) -> BoolArray:
    """bool (N,): which triggers disagreed again and are rejected by no filter.

    Args:
        confirmed: as for :func:`is_counted`.
        rejected_by: int64 (N,): the index of a filter, or ``ACCEPTED``.
    """
    return is_counted(confirmed) & (rejected_by == ACCEPTED)


def is_distinct(near_duplicate_of: Int64Array, numbers: Int64Array | None = None) -> BoolArray:
    """bool (N,): which valid triggers are kept when near-duplicates count once.

    Args:
        near_duplicate_of: int64 (N,): the number of the trigger that each repeats, its own when it is kept,
            ``NOT_VALID`` for what is not valid.
        numbers: int64 (N,): those of the triggers, or None: they are all of a run.
    """
    return np.asarray(near_duplicate_of == (np.arange(len(near_duplicate_of)) if numbers is None else numbers))


def is_distinct_among(near_duplicate_of: Int64Array, some: BoolArray) -> BoolArray:
    """bool (N,): the first of ``some`` among valid triggers that repeat each other; the others of these are left out.

    Args:
        near_duplicate_of: as for :func:`is_distinct`.
        some: bool (N,), such as those that the jury recognises.
    """
    rows = np.flatnonzero(some & (near_duplicate_of != NOT_VALID))
    _, first = np.unique(near_duplicate_of[rows], return_index=True)
    kept = np.zeros(len(some), dtype=np.bool_)
    kept[rows[first]] = True
    return kept
