"""Eq. 1 against a plain loop."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from diffgen.search.divergence import answer_margin, euclidean_plus_one


def loop_divergence(probabilities: np.ndarray) -> list[float]:
    worst = []
    for image in probabilities:
        values = []
        for p, q in combinations(image, 2):
            distance = math.sqrt(sum((float(a) - float(b)) ** 2 for a, b in zip(p, q, strict=True)))
            values.append(distance + (1 if list(p).index(max(p)) != list(q).index(max(q)) else 0))
        worst.append(max(values))
    return worst


@st.composite
def probability_arrays(draw: st.DrawFn) -> np.ndarray:
    shape = draw(st.tuples(st.integers(0, 5), st.integers(2, 3), st.integers(2, 6)))
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
