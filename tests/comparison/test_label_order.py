"""Labels of the data and classes of the models, by their names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.comparison.label_order import in_order, order_of_labels
from diffgen.types import ImageSet

WORDS = ("zero", "one", "two", "three")


def data(names: tuple[str, ...] | None, labels: tuple[int, ...] = (0, 1)) -> ImageSet:
    return ImageSet(np.zeros((len(labels), 1, 2, 2), np.uint8), np.array(labels), names, "some")


@given(st.permutations(WORDS), st.lists(st.integers(0, 3), min_size=1, max_size=9))
def test_a_label_keeps_its_name(own: list[str], labels: list[int]) -> None:
    given_ = data(tuple(own), tuple(labels))
    order = order_of_labels(given_, WORDS)
    assert (order == ()) == (tuple(own) == WORDS)
    found = in_order(given_, order)
    assert found.labels is not None
    assert [WORDS[label] for label in found.labels] == [own[label] for label in labels]


@pytest.mark.parametrize(
    ("own", "names", "order"),
    [
        (("Zero", "TWO"), WORDS, (0, 2)),  # some classes, written otherwise
        (("traffic_light", "Stop sign"), ("stop-sign", "traffic light"), (1, 0)),
        (("zero", "five"), WORDS, ()),  # five is none of them
        (("zero", "Zero"), WORDS, ()),  # one class twice
        (("zero", "one"), ("one", "One", "zero"), ()),  # nobody knows which
        (("0", "1", "3"), WORDS, (0, 1, 3)),  # a folder is missing
        (("0", "1", "3"), ("0", "1", "2", "3"), (0, 1, 3)),
        (("1", "2", "4"), tuple("01234"), ()),  # they may begin with 1
        (("0", "1", "9"), tuple("012"), ()),  # as many as the model has
        (("0", "9"), tuple("012"), ()),  # more than it has
        (("0", "1", "2"), WORDS, ()),  # the last is missing: they stay as they are
        (("00", "02"), tuple("012"), (0, 2)),
        (None, WORDS, ()),
    ],
)
def test_names_that_tell_an_order_and_others(
    own: tuple[str, ...] | None, names: tuple[str, ...], order: tuple[int, ...]
) -> None:
    assert order_of_labels(data(own), names) == order


def test_nothing_is_put_in_order_without_labels() -> None:
    bare = ImageSet(np.zeros((2, 1, 2, 2), np.uint8), None, ("one", "zero"), "some")
    assert order_of_labels(bare, WORDS) == ()
    assert in_order(bare, (1, 0)) is bare
