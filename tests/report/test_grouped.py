"""The gallery by behaviour, against a plain loop over all triggers."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from diffgen.report.data import Picture
from diffgen.report.reading import grouped
from diffgen.runs.triggers import TriggerTable, Verdicts

_TRIGGER = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1), st.booleans())


@given(st.lists(_TRIGGER.filter(lambda each: each[0] != each[1]), max_size=20), st.data())
def test_each_behaviour_counts_its_distinct_triggers(
    triggers: list[tuple[int, int, int, bool]], data: st.DataObject
) -> None:
    rows = len(triggers)
    answers = np.zeros((rows, 2, 3), dtype=np.float32)
    for row, (a, b, _, _) in enumerate(triggers):
        answers[row, [0, 1], [a, b]] = 1
    repeats = np.array([row if kept else 0 for row, (_, _, _, kept) in enumerate(triggers)], dtype=np.int64)
    verdicts = Verdicts.replayed(np.array([cell for _, _, cell, _ in triggers], dtype=np.int64))
    verdicts.near_duplicate_of[:] = repeats
    turned = np.array([b"rotation(degrees=%d)" % (row + 1) for row in range(rows)], dtype="S32")
    table = TriggerTable.of(
        np.zeros((rows, 1, 2, 2), np.uint8), answers, seeds=np.zeros(rows, np.int64), recipes=turned
    ).judged(verdicts)
    distinct = [row for row in range(rows) if repeats[row] == row]
    shown = data.draw(st.permutations(distinct))[:5]
    gallery = [Picture(table.images[row], triggers[row][:2], answers[row], row) for row in shown]

    groups = grouped(gallery, table)

    counts = Counter(triggers[row][:3] for row in distinct)
    assert {(*each.labels, each.cell): each.count for each in groups} == {
        triggers[row][:3]: counts[triggers[row][:3]] for row in shown
    }
    assert [picture.identifier for each in groups for picture in each.pictures] == sorted(
        shown, key=lambda row: [triggers[other][:3] for other in shown].index(triggers[row][:3])
    )
    for each in groups:
        # every one was turned: where there are three, all of them are told of
        assert each.made_by.startswith(f"{each.count} of {each.count}: turned") == (each.count >= 3)
