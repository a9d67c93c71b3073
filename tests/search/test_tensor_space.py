"""Crossing, mutating and repairing genes on tensors gives what pymoo and the spaces on arrays give."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pymoo.operators.crossover.sbx import SBX
from pymoo.operators.mutation.pm import PM

from diffgen.sources.draws import NumpyDraws
from diffgen.sources.learned.codes import Codes
from diffgen.sources.seeds import SeedsAndOperators
from diffgen.sources.space import Box, Crossing, Mutating, Space, WithCategories, WithClass
from diffgen.sources.tensor_space import (
    Bounds,
    SpaceOperators,
    TensorSpace,
    gene_operators,
    polynomial_mutation,
    simulated_binary_crossover,
)
from tests.search.on_tensors import FEWER, SEEDS, on, on_every_device, shell


class Given:
    """In place of pymoo's random state: numbers that were drawn for all genes, where it asks for those of some."""

    def __init__(self, *draws: np.ndarray) -> None:
        self._draws = list(draws)
        self._some: np.ndarray | None = None

    def random(self, size: Any = None) -> np.ndarray:
        drawn = self._draws.pop(0)
        if drawn.shape == (size if isinstance(size, tuple) else (size,)):
            return drawn
        assert self._some is not None
        return drawn[self._some]

    def where(self, some: np.ndarray) -> Given:
        self._some = some
        return self


def genes_of(count: int, seed: int, *, grid: bool) -> np.ndarray:
    """Genes from -3 to 3; on a grid many are alike, and some lie on a bound."""
    rng = np.random.default_rng(seed)
    return rng.integers(-3, 4, (count, 6)).astype(float) if grid else rng.uniform(-3, 3, (count, 6))


def bounds(device: str = "cpu") -> Bounds:
    # the last gene has one value only
    low = torch.tensor([-3.0] * 5 + [1.0], dtype=torch.float64, device=device)
    return Bounds(low, low.abs())


def as_pymoo() -> SimpleNamespace:
    low, high = bounds().low.numpy(), bounds().high.numpy()
    return SimpleNamespace(n_var=6, xl=low, xu=high)


@on_every_device
@FEWER
@given(pairs=st.integers(1, 30), seed=SEEDS, grid=st.booleans(), share=st.sampled_from([0.3, 0.5, 0.9]))
def test_the_same_random_numbers_give_pymoos_children(
    device: str, pairs: int, seed: int, grid: bool, share: float
) -> None:
    parents = genes_of(2 * pairs, seed, grid=grid).reshape(2, pairs, 6)
    parents[..., 5] = 1.0
    draws = np.random.default_rng(seed + 1).random((3, pairs, 6))
    crossed = (draws[0] < share) & (np.abs(parents[0] - parents[1]) > 1e-14)
    crossed[:, 5] = False
    stub = Given(np.zeros((pairs, 1)), draws[0], draws[1], draws[2]).where(crossed)
    theirs = SBX(prob_var=share, eta=15.0)._do(as_pymoo(), parents, random_state=stub)
    given_draws = tuple(torch.from_numpy(each).to(device) for each in draws)
    ours = simulated_binary_crossover(
        torch.from_numpy(parents).to(device), bounds(device), Crossing(share, eta=15.0), given_draws
    )
    np.testing.assert_allclose(ours.cpu().numpy(), theirs, rtol=0, atol=1e-6)


@on_every_device
@FEWER
@given(count=st.integers(1, 40), seed=SEEDS, grid=st.booleans(), share=st.sampled_from([None, 0.1, 0.8]))
def test_the_same_random_numbers_give_pymoos_mutants(
    device: str, count: int, seed: int, grid: bool, share: float | None
) -> None:
    X = genes_of(count, seed, grid=grid)
    X[:, 5] = 1.0
    draws = np.random.default_rng(seed + 1).random((2, count, 6))
    each = 1 / 6 if share is None else share
    changed = draws[0] < each
    changed[:, 5] = False
    stub = Given(draws[0], draws[1]).where(changed)
    theirs = PM(prob_var=each, eta=20.0)._do(as_pymoo(), X, random_state=stub)
    given_draws = tuple(torch.from_numpy(drawn).to(device) for drawn in draws)
    how = Mutating(share, category_probability=0.0, eta=20.0)
    ours = polynomial_mutation(torch.from_numpy(X).to(device), bounds(device), how, given_draws)
    np.testing.assert_allclose(ours.cpu().numpy(), theirs, rtol=0, atol=1e-6)


@on_every_device
@pytest.mark.parametrize("space", [shell(), shell(7), Box(5, 1.0), WithCategories(Box(4), (3, 1))])
def test_repair_is_that_of_the_space(device: str, space: Space) -> None:
    rng = np.random.default_rng(0)
    genes = rng.normal(0, [[0.3], [1.0], [4.0]] * 40, (120, space.length))
    genes[0, : space.continuous] = 0
    ours = on(device, space).repair(torch.from_numpy(genes).to(device)).cpu().numpy()
    np.testing.assert_allclose(ours, space.repair(genes), rtol=0, atol=1e-12)


@on_every_device
def test_categories_are_crossed_and_mutated_as_on_arrays(device: str) -> None:
    space = WithCategories(Box(2), (5, 1))
    own, rng = on(device, space), np.random.default_rng(0)
    genes = torch.from_numpy(space.sample(8000, NumpyDraws(np.random.default_rng(0)))).to(device)
    parents = genes.reshape(2, 4000, -1)
    children = own.crossover(parents, Crossing(0.5, eta=15.0), rng)[..., 2]
    swapped = (children[0] == parents[1][:, 2]) & (children[1] == parents[0][:, 2])
    assert (swapped | (children == parents[..., 2]).all(dim=0)).all()
    differ = parents[0][:, 2] != parents[1][:, 2]
    assert swapped[differ].double().mean().item() == pytest.approx(0.5, abs=0.04)
    mutated = own.mutate(genes, Mutating(0.1, category_probability=0.3, eta=20.0), rng)
    changed = mutated[:, 2] != genes[:, 2]
    assert changed.double().mean().item() == pytest.approx(0.3, abs=0.03)
    steps = ((mutated[:, 2] - genes[:, 2]) % 5)[changed].long().bincount(minlength=5) / changed.sum()
    assert steps.tolist() == pytest.approx([0, 0.25, 0.25, 0.25, 0.25], abs=0.04)
    assert (mutated[:, 3] == 0).all()


def test_only_latent_vectors_are_crossed_on_a_gpu() -> None:
    class Stubborn(Box):
        def mutate(self, genes: Any, how: Mutating, rng: np.random.Generator) -> Any:
            return genes

    latent = Codes(-np.ones(3), np.ones(3), None), shell(), WithClass(Box(3), 4)
    others = SeedsAndOperators(50, 4, 2), Stubborn(3), WithClass(Stubborn(3), 4)
    for device in ("cpu", "mps"):
        assert all(
            isinstance(gene_operators(each, torch.device(device)), SpaceOperators) for each in (*latent, *others)
        )
    for each in others:
        assert isinstance(gene_operators(each, torch.device("cuda")), SpaceOperators)
    if torch.cuda.is_available():
        assert all(isinstance(gene_operators(each, torch.device("cuda")), TensorSpace) for each in latent)
