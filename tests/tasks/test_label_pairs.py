"""Label pairs are counted as in a whole table, whatever the number of classes, and are read as they were written."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from diffgen.tasks.classification import MATRIX_CLASSES, PAIR_NUMBERS, LabelPairs, label_numbers
from diffgen.types import Int64Array


@st.composite
def labels(draw: st.DrawFn) -> tuple[Int64Array, int]:
    classes = draw(st.sampled_from([2, 3, MATRIX_CLASSES, MATRIX_CLASSES + 1, 10_000]))
    # from both ends of them, so that pairs occur more than once
    one = st.integers(0, 2).map(lambda n: n % classes) | st.just(classes - 1)
    rows = draw(st.lists(st.tuples(one, one, one), max_size=20))
    return np.array(rows, dtype=np.int64).reshape(-1, 3), classes


@given(labels())
def test_counted_as_by_hand(given_labels: tuple[Int64Array, int]) -> None:
    said, classes = given_labels
    found = LabelPairs.of(said, classes)
    wanted = Counter((a, b) for a, b, _ in said.tolist())
    assert {
        tuple(pair): count for pair, count in zip(found.pairs.tolist(), found.counts.tolist(), strict=True)
    } == wanted
    assert (found.total, len(found)) == (len(said), len(wanted))
    often = found.counts[found.by_frequency()].tolist()
    assert often == sorted(often, reverse=True)


@given(labels())
def test_written_and_read(given_labels: tuple[Int64Array, int]) -> None:
    said, classes = given_labels
    found = LabelPairs.of(said, classes)
    written = json.loads(json.dumps(found.as_json()))
    assert isinstance(written, list) == (classes <= MATRIX_CLASSES)
    assert LabelPairs.read(written, classes) == found
    if classes <= 100:
        assert LabelPairs.read(found.matrix().tolist(), classes) == found
        assert found.matrix().sum() == found.total


def test_numbers_of_tuples_fit_whatever_the_classes() -> None:
    """Of four models with 10,000 classes there are more tuples than a number of 64 bits with a cell has room for."""
    import torch

    said = torch.from_numpy(np.random.default_rng(0).integers(0, 10_000, (5_000, 4)))
    numbers = label_numbers(said, 10_000).tolist()
    plain = [(((a * 10_000 + b) * 10_000 + c) * 10_000 + d) % PAIR_NUMBERS for a, b, c, d in said.tolist()]
    assert numbers == plain
    assert len(set(numbers)) == 5_000 and min(numbers) >= 0 and max(numbers) * 2**20 + 2**20 < 2**63
