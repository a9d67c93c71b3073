"""What it means that models disagree, and what a behaviour is, for any number of models."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from diffgen.tasks.classification import (
    MATRIX_CLASSES,
    NO_MAJORITY,
    PAIR_NUMBERS,
    LabelPairs,
    behaviours,
    by_verdict,
    differ,
    disagree,
    faults,
    label_numbers,
    labels_of,
    majority,
    pairwise,
    sides,
    stands_alone,
    who_is_wrong,
    widest_gap,
)
from diffgen.types import Float32Array, Int64Array

ANSWERS = st.tuples(st.integers(0, 6), st.integers(2, 4), st.integers(2, 5)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=st.floats(0, 1, width=16))
)


@given(ANSWERS, st.floats(0, 0.5, width=16))
def test_disagreement_against_the_rule_in_plain_python(answers: Float32Array, margin: float) -> None:
    wanted = []
    for models in answers.tolist():
        said = [max(range(len(each)), key=each.__getitem__) for each in models]
        gaps = [sorted(each)[-1] - sorted(each)[-2] for each in models]
        wanted.append(len(set(said)) > 1 and min(gaps) > margin)
    assert disagree(torch.from_numpy(answers), margin).tolist() == wanted
    labels = labels_of(answers)
    assert differ(labels).tolist() == [len(set(row)) > 1 for row in labels.tolist()]
    assert differ(torch.from_numpy(labels)).tolist() == differ(labels).tolist()


@given(ANSWERS)
def test_one_number_for_each_tuple_of_labels(answers: Float32Array) -> None:
    labels, classes = labels_of(answers), answers.shape[2]
    numbers = label_numbers(torch.from_numpy(labels), classes).tolist()
    assert len(set(numbers)) == len(set(map(tuple, labels.tolist())))
    assert all(0 <= number < classes ** labels.shape[1] for number in numbers)


@given(ANSWERS)
def test_the_widest_gap_is_that_of_some_pair(answers: Float32Array) -> None:
    gaps = widest_gap(answers)
    for row, gap in zip(answers, gaps, strict=True):
        others = max(np.linalg.norm(a - b) for i, a in enumerate(row) for b in row[i + 1 :])
        assert gap == pytest.approx(others, rel=1e-6)  # sums of float32 in another order


def test_a_behaviour_is_what_the_models_say_and_the_cell() -> None:
    keys = behaviours(np.array([[1, 2, 1], [2, 1, 1]]), np.array([7, 7]))
    assert keys.tolist() == [[1, 2, 1, 7], [2, 1, 1, 7]]
    assert behaviours(np.empty((0, 2), np.int64), np.empty(0, np.int64)).shape == (0, 3)


@given(
    st.integers(2, 4).flatmap(
        lambda models: st.lists(
            st.tuples(st.lists(st.integers(0, 3), min_size=models, max_size=models), st.integers(0, 3), st.booleans()),
            min_size=1,
            max_size=20,
        )
    )
)
def test_who_is_wrong(rows: list[tuple[list[int], int, bool]]) -> None:
    labels, named, recognised = (np.asarray(column) for column in zip(*rows, strict=True))
    wrong = faults(labels, named, recognised)
    assert wrong.tolist() == [[sure and label != name for label in said] for said, name, sure in rows]
    verdicts = by_verdict(wrong)
    models = labels.shape[1]
    assert list(verdicts) == [*"DCBA"[4 - models :], *(["several"] if models > 2 else []), "all"]
    for row, who in enumerate(wrong.tolist()):
        found = [name for name, where in verdicts.items() if where[row]]
        if not any(who):
            assert not found
        elif sum(who) == 1:
            assert found == ["ABCD"[who.index(True)]]
        else:
            assert found == ["all" if all(who) else "several"]


def test_it_waits_for_no_torch() -> None:
    program = "import sys, diffgen.tasks.classification, diffgen.runs.triggers; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_verdict_in_words() -> None:
    assert [who_is_wrong(verdict, 2) for verdict in by_verdict(np.zeros((1, 2), dtype=bool))] == [
        "B is wrong where A is right",
        "A is wrong where B is right",
        "both are wrong",
    ]
    assert [who_is_wrong(verdict, 3) for verdict in by_verdict(np.zeros((1, 3), dtype=bool))] == [
        "C is wrong where all others are right",
        "B is wrong where all others are right",
        "A is wrong where all others are right",
        "several, but not all, are wrong",
        "all are wrong",
    ]


# -- what many models say of one picture, against plain loops --


@st.composite
def labels_of_many(draw: st.DrawFn) -> np.ndarray:
    shape = draw(st.tuples(st.integers(0, 8), st.integers(3, 7)))
    return draw(arrays(np.int64, shape, elements=st.integers(0, 3)))


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


# -- label pairs are counted as in a whole table, whatever the number of classes, and are read as they were written --


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
