"""What many models say of one picture, against plain loops."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from diffgen.tasks.classification import NO_MAJORITY, majority, pairwise, sides, stands_alone


@st.composite
def labels_of_many(draw: st.DrawFn) -> np.ndarray:
    shape = draw(st.tuples(st.integers(0, 8), st.integers(3, 7)))
    return draw(arrays.arrays(np.int64, shape, elements=st.integers(0, 3)))


@given(labels_of_many())
def test_who_stands_alone(labels: np.ndarray) -> None:
    expected = [
        [len(set(row) - {said}) == 1 and row.count(said) == 1 and len(row) - 1 in Counter(row).values() for said in row]
        for row in labels.tolist()
    ]
    assert stands_alone(labels).tolist() == expected


@given(labels_of_many())
def test_the_majority(labels: np.ndarray) -> None:
    expected = []
    for row in labels.tolist():
        label, votes = Counter(row).most_common(1)[0]
        expected.append(label if 2 * votes > len(row) else NO_MAJORITY)
    assert majority(labels).tolist() == expected


@given(labels_of_many())
def test_which_two_differ(labels: np.ndarray) -> None:
    models = labels.shape[1]
    expected = [[sum(row[a] != row[b] for row in labels.tolist()) for b in range(models)] for a in range(models)]
    assert pairwise(labels).tolist() == expected


@given(st.lists(st.integers(0, 4), min_size=2, max_size=9))
def test_sides_say_every_model_once_and_the_most_first(labels: list[int]) -> None:
    found = sides(labels)
    assert sorted(index for _, models in found for index in models) == list(range(len(labels)))
    assert all(labels[index] == label for label, models in found for index in models)
    assert [len(models) for _, models in found] == sorted((len(models) for _, models in found), reverse=True)
