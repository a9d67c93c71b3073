"""Each divergence against a plain loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import get_args, get_type_hints

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.stats import spearmanr

from diffgen.config import SearchConfig
from diffgen.search.divergence import DIVERGENCES, euclidean_plus_one, jensen_shannon, top2_margin
from diffgen.tasks.classification import answer_margin


def loop_divergence(probabilities: np.ndarray) -> list[float]:
    """Mean distance of all pairs, and 1 more where not all labels are alike; of two models the paper's Eq. 1."""
    found = []
    for image in probabilities:
        values = []
        for p, q in combinations(image, 2):
            values.append(math.sqrt(sum((float(a) - float(b)) ** 2 for a, b in zip(p, q, strict=True))))
        labels = {list(p).index(max(p)) for p in image}
        found.append(sum(values) / len(values) + (len(labels) > 1))
    return found


@st.composite
def probability_arrays(draw: st.DrawFn) -> np.ndarray:
    shape = draw(st.tuples(st.integers(0, 5), st.integers(2, 5), st.integers(2, 6)))
    raw = draw(arrays.arrays(np.float32, shape, elements=st.floats(0, 1, width=32)))
    raw = raw + 1e-3
    return (raw / raw.sum(axis=2, keepdims=True)).astype(np.float32)


@given(probability_arrays())
def test_divergence_equals_a_plain_loop(probabilities: np.ndarray) -> None:
    found = euclidean_plus_one(torch.from_numpy(probabilities)).tolist()
    assert np.allclose(found, loop_divergence(probabilities), atol=1e-6)


def test_the_paper_s_two_examples() -> None:
    """Section 3.3.2.1: the same distance, once with one label and once with two."""
    agree = [[0.05, 0.05, 0.05, 0.85], [0.15, 0.15, 0.15, 0.55]]
    differ = [[0.1, 0.2, 0.3, 0.4], [0.15, 0.25, 0.35, 0.05]]
    found = euclidean_plus_one(torch.tensor([agree, differ]))
    assert found[0] < 1 < found[1]


@given(probability_arrays())
def test_divergence_stays_in_its_range(probabilities: np.ndarray) -> None:
    found = euclidean_plus_one(torch.from_numpy(probabilities))
    assert ((found >= 0) & (found <= 1 + math.sqrt(2) + 1e-5)).all()


@given(probability_arrays())
def test_margin_is_the_smallest_gap_of_the_two_best(probabilities: np.ndarray) -> None:
    expected = [min(sorted(row)[-1] - sorted(row)[-2] for row in image.tolist()) for image in probabilities]
    assert np.allclose(answer_margin(torch.from_numpy(probabilities)).tolist(), expected, atol=1e-6)


def entropy(p: list[float]) -> float:
    return -sum(v * math.log2(v) for v in p if v > 0)


def test_jensen_shannon_equals_a_plain_loop() -> None:
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.full(5, 0.3), size=(40, 3)).astype(np.float32)
    probabilities[0] = np.eye(5, dtype=np.float32)[:3]  # nothing in common, and zeros
    probabilities[1] = probabilities[1, :1]  # all alike
    expected = []
    for answers in probabilities.astype(float).tolist():
        pairs = []
        for p, q in combinations(answers, 2):
            mean = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
            pairs.append(entropy(mean) - (entropy(p) + entropy(q)) / 2)
        expected.append(sum(pairs) / len(pairs))
    found = jensen_shannon(torch.from_numpy(probabilities)).numpy()
    assert np.allclose(found, expected, atol=1e-5)
    assert found[0] == pytest.approx(1)
    assert found[1] == pytest.approx(0, abs=1e-6)


def softmax(logits: np.ndarray) -> np.ndarray:
    raised = np.exp(logits - logits.max(axis=2, keepdims=True))
    return raised / raised.sum(axis=2, keepdims=True)


def exact_jensen_shannon(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Term by term, where nothing large is subtracted, in the widest floating point there is."""
    p, q = p.astype(np.longdouble), q.astype(np.longdouble)
    mean = (p + q) / 2
    return ((p * np.log2(p / mean) + q * np.log2(q / mean)).sum(axis=1) / 2).astype(np.float64)


def exact_euclidean(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.sqrt(((p - q) ** 2).sum(axis=1)) + (p.argmax(axis=1) != q.argmax(axis=1))


def exact_top2_margin(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    best = [np.sort(each, axis=1)[:, -2:] for each in (p, q)]
    return 1 - np.minimum(*(pair[:, 1] - pair[:, 0] for pair in best))


@pytest.mark.parametrize("apart", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("jensen-shannon", exact_jensen_shannon),
        ("euclidean+1", exact_euclidean),
        ("top2-margin", exact_top2_margin),
    ],
)
def test_close_models_are_told_apart(name: str, exact: Callable[..., np.ndarray], apart: float) -> None:
    """Models whose logits hardly differ are ranked as by exact arithmetic; every other image lies on a border."""
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(1000, 1, 10))
    logits[::2, :, 1] = logits[::2, :, 0] = logits[::2].max(axis=2)
    probabilities = softmax(logits + rng.normal(size=(1000, 2, 10)) * apart)
    if name != "top2-margin":
        assert 100 < (probabilities[:, 0].argmax(axis=1) != probabilities[:, 1].argmax(axis=1)).sum() < 500
    expected = exact(probabilities[:, 0], probabilities[:, 1])
    found = DIVERGENCES[name](torch.from_numpy(probabilities.astype(np.float32)))
    assert found.dtype == torch.float32
    assert spearmanr(found.numpy(), expected).statistic > 0.999
    if name == "jensen-shannon" and apart > 1e-4:
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-2)


def test_top2_margin_equals_a_plain_loop() -> None:
    rng = np.random.default_rng(1)
    probabilities = rng.dirichlet(np.full(4, 0.5), size=(40, 2)).astype(np.float32)
    expected = []
    for answers in probabilities.tolist():
        gaps = []
        for p in answers:
            first, second, *_ = sorted(p, reverse=True)
            gaps.append(first - second)
        expected.append(1 - min(gaps))
    assert np.allclose(top2_margin(torch.from_numpy(probabilities)).numpy(), expected, atol=1e-6)


def test_every_divergence_has_the_name_that_the_settings_have() -> None:
    assert tuple(DIVERGENCES) == get_args(get_type_hints(SearchConfig)["divergence"])
