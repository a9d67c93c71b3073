"""Crossover, mutation, sampling and repair of latent vectors, with and without a class among the genes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from pymoo.core.population import Population
from pymoo.core.problem import Problem
from pymoo.operators.crossover.sbx import SBX
from pymoo.operators.mutation.pm import PM

from diffgen.config import SearchConfig, replace
from diffgen.runs.triggers import TriggerTable
from diffgen.search.loop import SearchLoop
from diffgen.search.mating import Mating
from diffgen.search.nsga2 import Nsga2Search
from diffgen.sources.base import Source
from diffgen.sources.draws import NumpyDraws
from diffgen.sources.gan import GanSource
from diffgen.sources.space import Crossing, Mutating, NormalShell, random_genes
from diffgen.sources.tensor_space import SpaceOperators

CONFIG = SearchConfig(population=40, reducer_dim=10)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def children_of(X: np.ndarray, source: Source, prior: str = "generator", **settings: float) -> np.ndarray:
    """Two of each two rows, one after the other."""
    config = SearchConfig(**{"crossover_probability": 0.0, "mutation_probability": 0.0, **settings})
    space = source.space.searched(prior, 3.0)
    mating = Mating(SpaceOperators(space), config)
    made = mating.children({"X": torch.from_numpy(X)}, torch.arange(len(X)), rng(1)).numpy()
    # first children come first
    return made.reshape(2, len(X) // 2, -1).swapaxes(0, 1).reshape(X.shape)


def test_without_a_class_the_operators_are_pymoos_own() -> None:
    space, plain = NormalShell(16, 3.0), Problem(n_var=16, n_obj=2, xl=-3.0, xu=3.0)
    X = rng().uniform(-3, 3, (40, 16))
    pairs, parents = np.arange(40).reshape(20, 2), Population.new(X=X)
    ours = space.crossover(X[pairs.T], Crossing(0.5, eta=15.0), rng(1)).reshape(40, 16)
    crossing = SBX(prob=1.0, prob_var=0.5, eta=15.0)
    assert np.array_equal(ours, crossing._do(plain, X[pairs.T], random_state=rng(1)).reshape(40, 16))
    ours = space.mutate(X, Mutating(0.1, 0.05, eta=20.0), rng(2))
    theirs = PM(prob=1.0, prob_var=0.1, eta=20.0)._do(plain, parents.get("X"), random_state=rng(2))
    assert np.array_equal(ours, theirs)


def test_shares_of_individuals_and_of_genes_are_two_things(generator: GanSource) -> None:
    X = rng().uniform(-2, 2, (2000, 16))

    def shares(**settings: float) -> tuple[float, float]:
        changed = children_of(X, generator, "box", **settings) != X
        touched = changed.any(axis=1)
        return float(touched.mean()), float(changed[touched].mean())

    individuals, genes = shares(mutation_probability=0.3, mutation_gene_probability=0.5)
    assert individuals == pytest.approx(0.3, abs=0.04)
    assert genes == pytest.approx(0.5, abs=0.04)
    matings, genes = shares(crossover_probability=0.4, crossover_gene_probability=0.75)
    assert matings == pytest.approx(0.4, abs=0.04)
    assert genes == pytest.approx(0.75, abs=0.04)


def test_children_have_the_class_of_one_parent_each(conditional: Source) -> None:
    X = conditional.space.searched("generator", 3.0).sample(400, NumpyDraws(rng()))
    children = children_of(X, conditional, crossover_probability=0.9)[:, -1].reshape(200, 2)
    parents = X[:, -1].reshape(200, 2)
    assert np.array_equal(np.sort(children, axis=1), np.sort(parents, axis=1))
    differ = parents[:, 0] != parents[:, 1]
    swapped = (children[:, 0] != parents[:, 0])[differ].mean()
    assert 0.3 < swapped < 0.6  # half of the nine tenths that are crossed


def test_mutation_draws_another_class_now_and_then(conditional: Source) -> None:
    X = conditional.space.searched("generator", 3.0).sample(4000, NumpyDraws(rng()))
    before = X[:, -1]
    after = children_of(X, conditional, mutation_probability=1.0, mutation_class_probability=0.2)[:, -1]
    assert (after != before).mean() == pytest.approx(0.2, abs=0.03)
    assert set(after.tolist()) == set(map(float, range(conditional.classes)))
    # every other class is as likely as any
    steps = ((after - before) % conditional.classes)[after != before]
    assert np.bincount(steps.astype(int), minlength=10)[1:].min() > 50
    still = children_of(X, conditional, mutation_probability=1.0, mutation_class_probability=0.0)[:, -1]
    assert np.array_equal(still, before)


def test_sampling_keeps_to_the_prior_and_repair_leaves_the_class_alone(conditional: Source) -> None:
    space = conditional.space.searched("generator", 3.0)
    X = space.sample(3000, NumpyDraws(rng()))
    genes, classes = X[:, :-1], X[:, -1]
    bound, spread = (3.0, 1.0) if conditional.prior == "normal" else (1.0, 1 / np.sqrt(3))
    assert np.abs(genes).max() <= bound
    assert genes.std() == pytest.approx(spread, abs=0.02)
    assert np.bincount(classes.astype(int), minlength=10).min() > 200
    assert np.array_equal(classes, classes.round())
    repaired = space.repair(np.column_stack([genes * 5, classes]))
    assert np.array_equal(repaired[:, -1], classes)
    assert np.abs(repaired[:, :-1]).max() <= bound


@pytest.mark.parametrize("prior", ["generator", "box"])
def test_a_search_over_classes_stores_what_redraws_the_picture(
    make_search: Callable[..., tuple[Nsga2Search, SearchLoop]], conditional: Source, prior: str
) -> None:
    parts: list[TriggerTable] = []
    config = replace(CONFIG, prior=prior, bound=3.0 if prior == "generator" else 1.5)
    _, loop = make_search(conditional, "800q", config)
    archive = loop.evaluator.archive
    archive._sink = parts.append
    loop.run()
    archive.flush(everything=True)
    found = TriggerTable.joined(parts)
    latents, images = found.genes, found.images
    assert latents is not None
    assert len(latents) > 20
    assert latents.shape[1] == conditional.space.length == 13
    again = conditional.draw(torch.from_numpy(latents)).numpy()
    # in another batch a value that lies between two grey levels may be rounded to the other
    assert np.abs(again.astype(int) - images).max() <= 1
    assert (again == images).mean() > 0.999
    assert len(np.unique(latents[:, -1])) > 3  # not only one class triggers
    largest = 1.5 if prior == "box" else {"normal": 3.0, "uniform": 1.0}[conditional.prior]
    assert 0.9 * largest < np.abs(latents[:, :-1]).max() <= largest


def test_drawing_from_the_prior(conditional: Source, generator: GanSource) -> None:
    plain = random_genes(generator.space, 50, torch.Generator().manual_seed(3))
    assert torch.equal(plain, torch.randn(50, 16, generator=torch.Generator().manual_seed(3)))
    drawn = random_genes(conditional.space, 3000, torch.Generator().manual_seed(3))
    assert drawn.shape == (3000, 13)
    assert drawn.dtype == torch.float32
    assert drawn[:, -1].to(torch.int64).bincount(minlength=10).min() > 200
    assert (drawn[:, :-1].abs().max() > 1) == (conditional.prior == "normal")
