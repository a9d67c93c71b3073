"""The table of triggers with what a jury said of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from diffgen.metrics.counting import ACCEPTED, CONFIRMED_SINGLE
from diffgen.runs.triggers import UNNAMED, TriggerTable, Verdicts
from diffgen.tasks.classification import by_verdict

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
