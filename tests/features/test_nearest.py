"""diffgen.features.nearest against all distances, measured one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from diffgen.data import load
from diffgen.features import nearest
from diffgen.features.nearest import Nearest
from diffgen.types import ImageSet


@pytest.fixture(scope="module")
def digits() -> ImageSet:
    return load("digits:train")


def by_loop(own: torch.Tensor, vectors: torch.Tensor, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and distances in double precision."""
    rows, distances = [], []
    for vector in own.double().numpy():
        apart = np.linalg.norm(vectors.double().numpy() - vector, axis=1)
        order = np.argsort(apart, kind="stable")[:count]
        rows.append(order)
        distances.append(apart[order])
    return np.array(rows), np.array(distances)


def changed(digits: ImageSet, count: int) -> torch.Tensor:
    """float32 (count, D): real images, moved by a pixel, with grain."""
    rng = torch.Generator().manual_seed(0)
    images = torch.from_numpy(digits.images)[torch.randperm(len(digits), generator=rng)[:count]].roll(1, dims=3)
    return (images.float() / 255 + 0.05 * torch.randn(images.shape, generator=rng)).flatten(1)


def test_of_few_vectors_the_nearest_are_exact(digits: ImageSet) -> None:
    vectors = torch.from_numpy(digits.images[:300]).float().flatten(1) / 255
    own = changed(digits, 50)
    rows, distances = Nearest(vectors).find(own, 7)
    wanted, apart = by_loop(own, vectors, 7)
    np.testing.assert_allclose(distances.numpy(), apart, rtol=1e-4)
    assert (rows.numpy() == wanted).mean() > 0.98  # ties apart


def test_of_many_vectors_nearly_all_of_the_nearest_are_found(digits: ImageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "_FEW", 500)
    vectors = torch.from_numpy(digits.images).float().flatten(1) / 255
    own = changed(digits, 200)
    rows, distances = Nearest(vectors).find(own, 10)
    wanted, apart = by_loop(own, vectors, 10)
    assert (rows.numpy()[:, 0] == wanted[:, 0]).mean() >= 0.99
    both = [len(set(own_rows) & set(theirs)) for own_rows, theirs in zip(rows.tolist(), wanted.tolist(), strict=True)]
    assert np.mean(both) > 9.8
    # whatever is found, its distance is the true one, and none is nearer than the nearest
    true = (own[:, None] - vectors[rows]).norm(dim=2)
    torch.testing.assert_close(distances, true)
    assert (distances.numpy() >= apart - 1e-4).all()


def test_the_same_whatever_stands_beside_it_and_whatever_was_drawn_before(
    digits: ImageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "_FEW", 500)
    vectors = torch.from_numpy(digits.images).float().flatten(1) / 255
    own = changed(digits, 64)
    one = Nearest(vectors)
    state = torch.get_rng_state()
    torch.manual_seed(5)
    drawn = torch.rand(3)
    torch.manual_seed(5)
    other = Nearest(vectors)
    torch.testing.assert_close(torch.rand(3), drawn, rtol=0, atol=0)  # nothing was taken from the stream
    torch.set_rng_state(state)
    rows, _ = one.find(own, 5)
    assert torch.equal(other.find(own, 5)[0], rows)
    assert torch.equal(torch.cat([one.find(own[:10], 5)[0], one.find(own[10:], 5)[0]]), rows)


def test_no_more_than_there_are() -> None:
    vectors = torch.eye(3)
    rows, distances = Nearest(vectors).find(torch.tensor([[1.0, 0.0, 0.1]]), 10)
    assert rows.tolist() == [[0, 2, 1]]
    assert distances.shape == (1, 3)


@given(rows=st.integers(0, 4), columns=st.integers(1, 700), count=st.integers(1, 12), seed=st.integers(0, 99))
@example(rows=3, columns=9_001, count=25, seed=0)
@example(rows=3, columns=1_600, count=100, seed=0)
def test_the_smallest_are_those_of_a_sort_ties_apart(rows: int, columns: int, count: int, seed: int) -> None:
    """Few different values, so that there are ties, and infinities among them."""
    rng = np.random.default_rng(seed)
    values = rng.choice([*rng.standard_normal(columns // 3 + 1).astype(np.float32), np.inf], (rows, columns))
    count = min(count, columns)
    found = nearest._smallest(torch.from_numpy(values), count).numpy()
    assert found.shape == (rows, count)
    assert all(len(set(row)) == count for row in found.tolist())  # none twice
    np.testing.assert_array_equal(np.take_along_axis(values, found, axis=1), np.sort(values, axis=1)[:, :count])
