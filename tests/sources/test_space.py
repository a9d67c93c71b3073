"""Spaces: what is sampled, crossed, mutated and mixed stays in them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffgen.sources.draws import Draws, NumpyDraws, TorchDraws, UnsearchedDraws
from diffgen.sources.space import (
    Box,
    Crossing,
    Genes,
    LatentLayout,
    Mutating,
    NormalShell,
    Space,
    WithCategories,
    WithClass,
    latent_space,
    random_genes,
)

_INNER = st.one_of(
    st.builds(Box, st.integers(1, 12), st.floats(0.1, 5)),
    st.builds(NormalShell, st.integers(2, 12), st.floats(2, 5)),
)
SPACES = st.one_of(
    _INNER,
    st.builds(WithClass, _INNER, st.integers(1, 9)),
    st.builds(WithCategories, _INNER, st.tuples(st.integers(1, 500), st.integers(1, 5), st.integers(1, 3))),
)
SEEDS = st.integers(0, 10_000)


def draws_of(seed: int) -> list[Draws]:
    return [
        NumpyDraws(np.random.default_rng(seed)),
        TorchDraws(torch.Generator().manual_seed(seed)),
        UnsearchedDraws(seed),
    ]


def sampled(space: Space, count: int, seed: int) -> Genes:
    return space.repair(space.sample(count, NumpyDraws(np.random.default_rng(seed))))


def assert_within(space: Space, genes: Genes) -> None:
    assert genes.shape[-1] == space.length == len(space.low) == len(space.high)
    assert (genes >= space.low).all()
    assert (genes <= space.high).all()
    columns = genes[..., space.continuous :]
    assert np.array_equal(columns, np.rint(columns))


@given(SPACES, st.integers(1, 40), SEEDS)
def test_samples_lie_within_and_repair_leaves_what_it_made(space: Space, count: int, seed: int) -> None:
    for draws in draws_of(seed):
        genes = space.sample(count, draws)
        assert genes.shape == (count, space.length)
        assert_within(space, genes.astype(np.float64))
    repaired = sampled(space, count, seed)
    assert_within(space, repaired)
    np.testing.assert_allclose(space.repair(repaired), repaired, atol=1e-12)
    far = np.random.default_rng(seed).normal(0, 50, (count, space.length))
    again = space.repair(far)
    assert_within(space, again)


@given(SPACES, st.integers(1, 30), SEEDS, st.floats(0, 1), st.floats(0, 1))
def test_crossover_and_mutation_stay_within(space: Space, pairs: int, seed: int, genes: float, other: float) -> None:
    rng = np.random.default_rng(seed)
    parents = np.stack([sampled(space, pairs, seed + n) for n in (0, 1)])
    before = parents.copy()
    children = space.crossover(parents, Crossing(genes, eta=15.0), rng)
    assert children.shape == parents.shape
    assert_within(space, children)
    # categories come from the parents, each from one of them
    for column in range(space.continuous, space.length):
        assert np.array_equal(np.sort(children[..., column], axis=0), np.sort(parents[..., column], axis=0))
    mutated = space.mutate(children[0], Mutating(genes, other, eta=20.0), rng)
    assert_within(space, mutated)
    assert np.array_equal(parents, before)
    still = space.mutate(children[0], Mutating(0.0, 0.0, eta=20.0), rng)
    assert np.array_equal(still, children[0])


@given(SPACES, st.integers(1, 20), SEEDS, st.floats(0, 1))
def test_a_way_begins_and_ends_where_it_should(space: Space, count: int, seed: int, share: float) -> None:
    start, end = (torch.from_numpy(sampled(space, count, seed + n)) for n in (0, 1))

    def at(value: float) -> torch.Tensor:
        return space.interpolate(start, end, torch.full((count, 1), value, dtype=torch.float64))

    assert torch.equal(at(0.0), start)
    torch.testing.assert_close(at(1.0), end)
    assert torch.equal(at(1.0)[:, space.continuous :], end[:, space.continuous :])
    assert_within(space, at(share).numpy().clip(space.low - 1e-9, None).round(9).clip(space.low, space.high))
    # many stops at once are the stops one by one
    stops = torch.tensor([0.25, share], dtype=torch.float64)[:, None, None]
    many = space.interpolate(start[0], end, stops)
    assert many.shape == (2, count, space.length)
    assert torch.equal(many[1], space.interpolate(start[0], end, stops[1]))


@given(SPACES, SEEDS)
def test_categories_are_taken_over(space: Space, seed: int) -> None:
    one, *others = torch.from_numpy(sampled(space, 6, seed))
    taken = space.with_categories_of(torch.stack(others), one)
    assert torch.equal(taken[:, space.continuous :], one[space.continuous :].expand(5, -1))
    assert torch.equal(taken[:, : space.continuous], torch.stack(others)[:, : space.continuous])


def test_what_is_searched_of_a_prior() -> None:
    normal = latent_space(100, "normal", classes=10, labels=tuple(range(1, 11)))
    searched = normal.searched("generator", 3.0)
    assert isinstance(searched, WithClass)
    assert isinstance(searched.inner, NormalShell)
    assert (searched.low[0], searched.high[0], searched.high[-1]) == (-3.0, 3.0, 9.0)
    assert searched.labels == tuple(range(1, 11))
    boxed = normal.searched("box", 1.0)
    assert isinstance(boxed, WithClass)
    assert type(boxed.inner) is Box
    assert (boxed.low[0], boxed.high[0]) == (-1.0, 1.0)
    # a uniform prior is its own box, whatever the bound
    assert latent_space(4, "uniform").searched("generator", 3.0).high.tolist() == [1.0] * 4
    # the norms of a shell are those of normal vectors
    far = np.random.default_rng(0).normal(0, 4, (200, 101))
    norms = np.linalg.norm(searched.repair(far)[:, :-1], axis=1)
    assert 7 < norms.min() < norms.max() < 13


def test_the_layout_says_what_the_columns_are() -> None:
    assert latent_space(5, "uniform").layout() == LatentLayout(5, 0, "uniform")
    assert latent_space(5, "normal", 3, (2, 4, 6)).layout() == LatentLayout(5, 3, "normal", (2, 4, 6))
    assert latent_space(5, "normal", 3).layout() == LatentLayout(5, 3, "normal")


@pytest.mark.parametrize("classes", [0, 4])
def test_random_genes_are_float32_of_one_stream(classes: int) -> None:
    space = latent_space(6, "normal", classes)
    genes = random_genes(space, 50, torch.Generator().manual_seed(3))
    assert genes.dtype == torch.float32
    rng = torch.Generator().manual_seed(3)
    assert torch.equal(genes[:, :6], torch.randn(50, 6, generator=rng))
    if classes:
        assert torch.equal(genes[:, 6], torch.randint(4, (50,), generator=rng).float())
