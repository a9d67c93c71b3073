"""What is kept of answers with many classes gives the figures that all of them give."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffgen.tasks.classification import answer_margin, labels_of, rows_by_key, top5_flips
from diffgen.tasks.kept_answers import ALL_KEPT, KeptAnswers, keep, kept_count
from diffgen.types import Float32Array


def answers(models: int, classes: int, *, sharp: float, seed: int, rows: int = 50) -> Float32Array:
    """float32 (rows, M, K): from nearly one class alone (``sharp`` small) to all alike."""
    rng = np.random.default_rng(seed)
    drawn = rng.gamma(sharp, size=(rows, models, classes)) + rng.uniform(1e-7, 1e-5, size=(rows, models, classes))
    return (drawn / drawn.sum(axis=2, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("classes", [2, 10, ALL_KEPT])
def test_of_few_classes_all_is_kept(classes: int) -> None:
    given_answers = answers(2, classes, sharp=0.1, seed=0)
    kept = KeptAnswers.of(given_answers)
    assert kept.classes is None and kept.count == classes
    assert np.shares_memory(kept.probabilities, given_answers) and kept.dense() is kept.probabilities


@pytest.mark.parametrize("classes", [ALL_KEPT + 1, 1_000, 10_000])
@pytest.mark.parametrize("models", [2, 3, 8])
@pytest.mark.parametrize("sharp", [0.001, 0.1, 1.0, 1000.0])
def test_of_many_classes_no_figure_changes(classes: int, models: int, sharp: float) -> None:
    whole = answers(models, classes, sharp=sharp, seed=classes, rows=20)
    kept = KeptAnswers.of(whole)
    assert kept.classes is not None
    width = kept_count(models, classes)
    assert kept.probabilities.shape == (20, models, width) and kept.classes.shape == (20, width)
    assert (np.diff(kept.classes, axis=1) > 0).all()
    for row, (own, chosen) in enumerate(zip(kept.probabilities, kept.classes, strict=True)):
        np.testing.assert_array_equal(own, whole[row][:, chosen])
    np.testing.assert_array_equal(kept.labels, labels_of(whole))
    for model in range(models):
        one, other = (torch.from_numpy(each[:, model : model + 1]) for each in (kept.probabilities, whole))
        assert torch.equal(answer_margin(one), answer_margin(other))
    largest = np.ptp(whole, axis=1).max(axis=1)
    np.testing.assert_array_equal(np.ptp(kept.probabilities, axis=1).max(axis=1), largest)
    np.testing.assert_array_equal(top5_flips(kept.probabilities[:, :2]), top5_flips(whole[:, :2]))
    dense = kept.dense()
    np.testing.assert_allclose(dense.sum(axis=2), 1, atol=1e-4)
    np.testing.assert_array_equal(np.take_along_axis(dense, kept.classes[:, None], axis=2), kept.probabilities)


@given(st.integers(0, 1000), st.integers(6, 200), st.sampled_from([0.01, 0.3, 1.0]))
def test_top_five_flips_against_sorting(seed: int, classes: int, sharp: float) -> None:
    whole = answers(2, classes, sharp=sharp, seed=seed, rows=8)
    order = np.argsort(-whole, axis=2)[:, :, :5].tolist()
    wanted = [a[0] not in b or b[0] not in a for a, b in order]
    assert top5_flips(whole).tolist() == wanted


def test_an_equal_probability_is_no_flip() -> None:
    """With ties it is not said which five are the highest: who ties with the fifth is among them."""
    tied = np.zeros((1, 2, 20), dtype=np.float32)
    tied[0, 0, 19], tied[0, 1, :] = 1, 1 / 20
    assert top5_flips(tied).tolist() == [False]
    tied[0, 1, :5] += 0.01
    assert top5_flips(tied).tolist() == [True]


def test_some_and_several() -> None:
    whole = answers(2, 500, sharp=0.1, seed=3)
    kept = KeptAnswers.of(whole)
    parts = KeptAnswers.joined([kept[:20], kept[20:]])
    assert len(parts) == 50 and parts.classes is not None
    np.testing.assert_array_equal(parts.probabilities, kept.probabilities)
    np.testing.assert_array_equal(parts[[3, 1]].labels, kept.labels[[3, 1]])
    probabilities, classes = keep(torch.from_numpy(whole))
    np.testing.assert_array_equal(probabilities, kept.probabilities)
    np.testing.assert_array_equal(classes, kept.classes)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=30))
def test_rows_by_key_against_a_plain_dictionary(given_keys: list[tuple[int, int]]) -> None:
    wanted: dict[tuple[int, ...], list[int]] = {}
    for row, key in enumerate(given_keys):
        wanted.setdefault(key, []).append(row)
    found = [(key, rows.tolist()) for key, rows in rows_by_key(np.array(given_keys, dtype=np.int64).reshape(-1, 2))]
    assert found == sorted(wanted.items())
