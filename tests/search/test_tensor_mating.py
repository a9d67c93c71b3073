"""Offspring made on tensors are those of arrays: parents, children, what is new."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffgen.search.individuals import Individuals
from diffgen.search.mating import ArrayMating, FreshGenes
from diffgen.search.operators import SpaceCrossover, SpaceMutation
from diffgen.search.tensor_mating import TensorMating, are_new, tournament_winners
from diffgen.sources.draws import NumpyDraws
from diffgen.sources.space import Box, Crossing, Mutating, Space, WithCategories
from tests.search.on_tensors import SEEDS, on, on_every_device, shell


def operators() -> tuple[SpaceCrossover, SpaceMutation]:
    return (
        SpaceCrossover(0.8, Crossing(gene_probability=0.5, eta=15.0)),
        SpaceMutation(0.7, Mutating(gene_probability=0.2, category_probability=0.2, eta=20.0)),
    )


def population_of(space: Space, count: int, device: str, seed: int = 0) -> Individuals:
    rng = np.random.default_rng(seed)
    X = space.repair(space.sample(count, NumpyDraws(rng)))
    columns = {"X": X, "F": rng.integers(0, 5, (count, 2)).astype(float), "crowding": rng.random(count)}
    return Individuals({name: torch.from_numpy(values).to(device) for name, values in columns.items()})


@on_every_device
def test_offspring_are_distributed_as_those_of_arrays(device: str) -> None:
    space = shell(4)
    crossover, mutation = operators()
    population = population_of(space, 600, device)
    theirs = [
        ArrayMating(crossover, mutation)
        .do(SimpleNamespace(space=space), population, 600, random_state=np.random.default_rng(seed))
        .get("X")
        for seed in range(5)
    ]
    mating = TensorMating(on(device, space), crossover, mutation, device=torch.device(device))
    ours = [mating.do(None, population, 600, random_state=np.random.default_rng(seed)).get("X") for seed in range(5)]
    their, our = np.concatenate(theirs), np.concatenate(ours)
    assert our.shape == their.shape == (3000, 21)
    np.testing.assert_allclose(space.repair(our), our, atol=1e-9)
    for share in (0.01, 0.1, 0.5, 0.9, 0.99):
        # of 60,000 genes: some standard errors
        assert np.quantile(our[:, :-1], share) == pytest.approx(np.quantile(their[:, :-1], share), abs=0.06)
    known = population.get("X")[:, 0]
    # genes that a child has from no parent: crossed or mutated ones
    made = [(~np.isclose(X[:, None, 0], known, rtol=0, atol=1e-12).any(axis=1)).mean() for X in (our, their)]
    assert made[0] == pytest.approx(made[1], abs=0.04)
    assert np.bincount(our[:, -1].astype(int)) / 3000 == pytest.approx(
        np.bincount(their[:, -1].astype(int)) / 3000, abs=0.05
    )


@on_every_device
def test_offspring_are_new_and_a_seed_repeats_them(device: str) -> None:
    space = WithCategories(Box(1, 1e-9), (3,))
    crossover, mutation = operators()
    mating = TensorMating(on(device, space), crossover, mutation, device=torch.device(device))
    population = population_of(space, 40, device)
    first, again, other = (
        mating.do(None, population, 101, random_state=np.random.default_rng(seed)).get("X") for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert len(first) == 101
    assert len(np.unique(np.concatenate([first, population.get("X")]), axis=0)) == 141
    # where none can be made there are none
    none = SpaceCrossover(0.0, crossover.how), SpaceMutation(0.0, mutation.how)
    still = TensorMating(on(device, space), *none, device=torch.device(device))
    assert len(still.do(None, population, 10, random_state=np.random.default_rng(0))) == 0


@given(st.integers(0, 60), st.integers(0, 60), SEEDS, st.sampled_from([2, 5]))
def test_doubles_are_those_that_bytes_tell(count: int, known: int, seed: int, alike: int) -> None:
    rng = np.random.default_rng(seed)
    genes, old = (rng.integers(0, alike, (size, 3)).astype(float) for size in (count, known))
    made = FreshGenes(old)
    made.take(genes)
    found = are_new(torch.from_numpy(genes), torch.from_numpy(old)).numpy()
    assert np.array_equal(genes[found], made.first(count))


def test_no_two_of_many_alike_genes_have_one_hash() -> None:
    """One last bit in one of a hundred genes, the same value in another column, the sign alone."""
    base = torch.rand(1, 100, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    bits = base.repeat(300, 1).view(torch.int64)
    bits[torch.arange(100), torch.arange(100)] += 1
    bits[torch.arange(100, 200), torch.arange(100)] ^= 1 << 62
    bits[torch.arange(200, 299), torch.arange(99)] = base.view(torch.int64)[0, 1:]
    rows = torch.cat(
        [bits.view(torch.float64), torch.eye(100, dtype=torch.float64), -torch.eye(100, dtype=torch.float64)]
    )
    assert are_new(rows, rows[:0]).sum() == len(torch.unique(rows.contiguous().view(torch.int64), dim=0))


@on_every_device
def test_the_better_one_wins_a_tournament(device: str) -> None:
    F = torch.tensor([[0.0, 0.0], [1.0, 1.0], [0.0, 2.0], [0.0, 2.0]], dtype=torch.float64, device=device)
    crowding = torch.tensor([0.5, 9.0, 0.7, 0.7], dtype=torch.float64, device=device)
    winners = tournament_winners(F, crowding, 6000, torch.Generator(device).manual_seed(0))
    # 0 dominates all; between 1 and the others crowding decides, and between these nothing
    shares = winners.bincount(minlength=4) / 6000
    assert shares.tolist() == pytest.approx([1 / 2, 1 / 3, 1 / 12, 1 / 12], abs=0.03)
    # everybody is drawn as often
    assert (
        tournament_winners(F[:1].repeat(50, 1), crowding[:1].repeat(50), 25, torch.Generator(device)).unique().numel()
        == 25
    )
