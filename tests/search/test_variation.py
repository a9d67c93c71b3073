"""Crossover, mutation, sampling and repair of latent vectors, with and without a class among the genes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from pymoo.core.population import Population
from pymoo.core.problem import Problem
from pymoo.operators.crossover.sbx import SBX
from pymoo.operators.mutation.pm import PM

from diffgen.config import SearchConfig, replace
from diffgen.runs.triggers import TriggerTable
from diffgen.search.diversity import Diversity, PixelEmbedding
from diffgen.search.engine import Nsga2Search
from diffgen.search.evaluator import Evaluator
from diffgen.search.loop import SearchLoop
from diffgen.search.operators import SpaceCrossover, SpaceMutation, SpaceRepair, SpaceSampling
from diffgen.search.problem import GeneProblem
from diffgen.sources.base import Source
from diffgen.sources.gan import GanSource
from diffgen.sources.space import Crossing, Mutating, random_genes

CONFIG = SearchConfig(population=40, reducer_dim=10)
MakeEvaluator = Callable[..., Evaluator]


def problem_of(generator: Source, evaluator: Evaluator, config: SearchConfig = CONFIG) -> GeneProblem:
    diversity = Diversity(evaluator.archive, config, space=PixelEmbedding(), seed=0, device=torch.device("cpu"))
    return GeneProblem(generator, evaluator.archive, diversity, config)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def crossover(probability: float = 0.9, gene_probability: float = 0.5) -> SpaceCrossover:
    return SpaceCrossover(probability, Crossing(gene_probability, eta=15.0))


def mutation(
    probability: float = 1.0, gene_probability: float = 0.1, category_probability: float = 0.05
) -> SpaceMutation:
    return SpaceMutation(probability, Mutating(gene_probability, category_probability, eta=20.0))


def test_without_a_class_the_operators_are_pymoos_own(make_evaluator: MakeEvaluator, generator: GanSource) -> None:
    problem = problem_of(generator, make_evaluator())
    plain = Problem(n_var=16, n_obj=2, xl=-3.0, xu=3.0)
    parents = Population.new(X=rng().uniform(-3, 3, (40, 16)))
    pairs = np.arange(40).reshape(20, 2)
    ours = crossover().do(problem, parents, pairs, random_state=rng(1)).get("X")
    theirs = SBX(prob=0.9, prob_var=0.5, eta=15.0).do(plain, parents, pairs, random_state=rng(1)).get("X")
    assert np.array_equal(ours, theirs)
    ours = mutation().do(problem, parents, inplace=False, random_state=rng(2)).get("X")
    theirs = PM(prob=1.0, prob_var=0.1, eta=20.0).do(plain, parents, inplace=False, random_state=rng(2)).get("X")
    assert np.array_equal(ours, theirs)


def test_shares_of_individuals_and_of_genes_are_two_things(make_evaluator: MakeEvaluator, generator: GanSource) -> None:
    problem = problem_of(generator, make_evaluator())
    parents = Population.new(X=rng().uniform(-2, 2, (2000, 16)))
    pairs = np.arange(2000).reshape(1000, 2)

    def shares(operator: Any, *given: Any) -> tuple[float, float]:
        made = operator.do(problem, parents, *given, inplace=False, random_state=rng(1)).get("X")
        # offspring come as all first children, then all second ones
        before = parents.get("X") if not given else parents.get("X")[np.concatenate([pairs[:, 0], pairs[:, 1]])]
        changed = made != before
        touched = changed.any(axis=1)
        return float(touched.mean()), float(changed[touched].mean())

    individuals, genes = shares(mutation(probability=0.3, gene_probability=0.5))
    assert individuals == pytest.approx(0.3, abs=0.04)
    assert genes == pytest.approx(0.5, abs=0.04)
    matings, genes = shares(crossover(probability=0.4, gene_probability=0.75), pairs)
    assert matings == pytest.approx(0.4, abs=0.04)
    assert genes == pytest.approx(0.75, abs=0.04)


def test_children_have_the_class_of_one_parent_each(make_evaluator: MakeEvaluator, conditional: Source) -> None:
    problem = problem_of(conditional, make_evaluator())
    X = SpaceSampling().do(problem, 400, random_state=rng()).get("X")
    pairs = np.arange(400).reshape(200, 2)
    children = crossover().do(problem, Population.new(X=X), pairs, random_state=rng(1)).get("X")
    first, second = children[:200, -1], children[200:, -1]
    parents = X[:, -1].reshape(200, 2)
    assert np.array_equal(np.sort(np.stack([first, second], axis=1)), np.sort(parents))
    differ = parents[:, 0] != parents[:, 1]
    swapped = (first != parents[:, 0])[differ].mean()
    assert 0.3 < swapped < 0.6  # half of the nine tenths that are crossed


def test_mutation_draws_another_class_now_and_then(make_evaluator: MakeEvaluator, conditional: Source) -> None:
    problem = problem_of(conditional, make_evaluator())
    X = SpaceSampling().do(problem, 4000, random_state=rng()).get("X")
    before, after = (
        X[:, -1],
        mutation(category_probability=0.2).do(problem, Population.new(X=X.copy()), random_state=rng(1)).get("X")[:, -1],
    )
    assert (after != before).mean() == pytest.approx(0.2, abs=0.03)
    assert set(after.tolist()) == set(map(float, range(conditional.classes)))
    # every other class is as likely as any
    steps = ((after - before) % conditional.classes)[after != before]
    assert np.bincount(steps.astype(int), minlength=10)[1:].min() > 50
    still = mutation(category_probability=0.0).do(problem, Population.new(X=X.copy()), random_state=rng(1)).get("X")
    assert np.array_equal(still[:, -1], before)


def test_sampling_keeps_to_the_prior_and_repair_leaves_the_class_alone(
    make_evaluator: MakeEvaluator, conditional: Source
) -> None:
    problem = problem_of(conditional, make_evaluator())
    X = SpaceSampling().do(problem, 3000, random_state=rng()).get("X")
    genes, classes = X[:, :-1], X[:, -1]
    bound, spread = (3.0, 1.0) if conditional.prior == "normal" else (1.0, 1 / np.sqrt(3))
    assert np.abs(genes).max() <= bound
    assert genes.std() == pytest.approx(spread, abs=0.02)
    assert np.bincount(classes.astype(int), minlength=10).min() > 200
    assert np.array_equal(classes, classes.round())
    repaired = SpaceRepair()._do(problem, np.column_stack([genes * 5, classes]))
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
