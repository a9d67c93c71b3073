"""What replaces pymoo's parts one individual at a time gives what pymoo's own parts give."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pymoo.algorithms.moo.nsga2 import binary_tournament
from pymoo.core.duplicate import DefaultDuplicateElimination
from pymoo.core.mating import Mating
from pymoo.core.population import Population
from pymoo.core.problem import Problem
from pymoo.operators.selection.tournament import TournamentSelection
from pymoo.operators.survival.rank_and_crowding import RankAndCrowding

from diffgen.search.individuals import Individuals
from diffgen.search.mating import ArrayMating, FreshGenes, tournament_winners
from diffgen.search.operators import SpaceCrossover, SpaceMutation, SpaceRepair
from diffgen.search.survival import RescoringSurvival, crowding_distances
from diffgen.sources.space import Crossing, Mutating, NormalShell, WithClass


class Eight(Problem):
    """Latent vectors of eight genes, and a class when there are any."""

    def __init__(self, classes: int) -> None:
        shell = NormalShell(8, bound=3.0)
        self.space = WithClass(shell, classes) if classes else shell
        super().__init__(n_var=self.space.length, n_obj=2, xl=self.space.low, xu=self.space.high)

    def rescore(self, population: Individuals) -> None:
        pass


def ranked(count: int, seed: int, classes: int, *, alike: int) -> Population:
    """A population with objectives on a coarse grid, so that ties abound, ranked by pymoo itself."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (count, 8))
    if classes:
        X = np.column_stack([X, rng.integers(classes, size=count)])
    population = Population.new(X=X, F=rng.integers(0, alike, (count, 2)).astype(float))
    for individual in population:
        individual.evaluated = {"F", "G", "H"}
    return RankAndCrowding().do(Eight(classes), population, n_survive=count, random_state=rng)


def columns_of(population: Population, *names: str) -> Individuals:
    """The same as columns."""
    columns = Individuals.unasked(population.get("X"))
    for name in names or ("F", "crowding"):
        columns.set(name, population.get(name).astype(float))
    return columns


@given(st.integers(4, 60), st.integers(0, 1000), st.sampled_from([2, 5, 1000]), st.sampled_from([0, 4]))
def test_mating_makes_the_same_offspring(count: int, seed: int, alike: int, classes: int) -> None:
    space, population = Eight(classes), ranked(count, seed, classes, alike=alike)
    crossover = SpaceCrossover(0.8, Crossing(gene_probability=0.5, eta=15.0))
    mutation = SpaceMutation(0.6, Mutating(gene_probability=0.2, category_probability=0.3, eta=20.0))
    shared = {"repair": SpaceRepair(), "eliminate_duplicates": DefaultDuplicateElimination()}
    theirs = Mating(TournamentSelection(func_comp=binary_tournament), crossover, mutation, **shared)
    ours = ArrayMating(crossover, mutation)
    states = [np.random.default_rng(seed + 1) for _ in range(2)]
    algorithm = SimpleNamespace(tournament_type="comp_by_dom_and_crowding", random_state=states[0])
    expected = theirs.do(space, population, count, algorithm=algorithm, random_state=states[0])
    found = ours.do(space, columns_of(population), count, random_state=states[1])
    assert np.array_equal(found.get("X"), expected.get("X"))
    # and the search goes on from the same state
    assert states[0].random() == states[1].random()


def test_mating_ends_when_no_new_offspring_can_be_made() -> None:
    still = ArrayMating(
        SpaceCrossover(0.0, Crossing(gene_probability=0.5, eta=15.0)),
        SpaceMutation(0.0, Mutating(gene_probability=0.1, category_probability=0.0, eta=20.0)),
    )
    problem, population = Eight(0), columns_of(ranked(10, 0, 0, alike=1000))
    population.set("X", problem.space.repair(population.get("X")))
    made = still.do(problem, population, 10, random_state=np.random.default_rng(0))
    assert len(made) == 0


@given(st.integers(1, 70), st.integers(0, 1000), st.sampled_from([1, 2, 6, 1000]), st.integers(1, 3), st.data())
def test_survival_chooses_the_same(count: int, seed: int, alike: int, objectives: int, data: st.DataObject) -> None:
    survivors = data.draw(st.integers(1, count))
    F = np.random.default_rng(seed).integers(0, alike, (count, objectives)).astype(float)
    population = Population.new(X=np.arange(count)[:, None].astype(float), F=F)
    states = [np.random.default_rng(seed) for _ in range(2)]
    ours = RescoringSurvival().do(Eight(0), columns_of(population, "F"), n_survive=survivors, random_state=states[0])
    theirs = RankAndCrowding().do(Eight(0), population, n_survive=survivors, random_state=states[1])
    assert np.array_equal(ours.get("X"), theirs.get("X"))
    assert np.array_equal(ours.get("rank"), theirs.get("rank"))
    assert np.array_equal(ours.get("crowding").astype(float), theirs.get("crowding").astype(float))


@given(st.integers(3, 40), st.integers(0, 99), st.integers(1, 3))
def test_what_got_no_number_from_a_filter_upsets_no_crowding(count: int, seed: int, lost: int) -> None:
    """Rejected without a number, it is infinitely far from acceptance, and counts as the worst that has a number."""
    rng = np.random.default_rng(seed)
    F = rng.random((count, 3))
    front = np.sort(rng.integers(0, 2, count))
    rows = rng.choice(count, size=lost, replace=False)
    replaced = F.copy()
    F[rows, 2] = np.inf
    finite = [F[(front == each) & np.isfinite(F[:, 2]), 2] for each in front]
    replaced[rows, 2] = [finite[row].max() if len(finite[row]) else 0.0 for row in rows]
    found = crowding_distances(F, front)
    assert not np.isnan(found).any()
    assert np.array_equal(found, crowding_distances(replaced, front))
    # nothing but such: all alike
    assert crowding_distances(np.full((5, 2), np.inf), np.zeros(5, dtype=np.int64)).tolist() == [0.0] * 5


def test_the_better_one_wins_a_tournament() -> None:
    F = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    crowding = np.array([0.5, 9.0, 0.7])
    winners = tournament_winners(F, crowding, 3000, np.random.default_rng(0))
    # 0 dominates both others; between 1 and 2 crowding decides
    assert np.bincount(winners, minlength=3) / 3000 == pytest.approx([2 / 3, 1 / 3, 0], abs=0.05)


def test_new_genes_are_those_that_pymoo_takes_for_no_doubles() -> None:
    rng = np.random.default_rng(0)
    X, old = rng.integers(0, 3, (60, 3)).astype(float), rng.integers(0, 3, (10, 3)).astype(float)
    theirs = DefaultDuplicateElimination().do(Population.new(X=X), Population.new(X=old))
    made = FreshGenes(old)
    made.take(X[:40])
    made.take(X[40:])
    assert 0 < len(made.rows) < 27
    assert np.array_equal(made.first(100), theirs.get("X"))
    assert FreshGenes(old).first(100).shape == (0, 3)


def test_columns_are_kept_joined_and_picked() -> None:
    rng = np.random.default_rng(0)
    X, F = rng.random((5, 3)), rng.random((5, 2))
    population, others = Individuals.unasked(X), Individuals.unasked(-X)
    population.set("F", F)
    population.set("n_gen", 3)
    others.set("F", -F)
    both = population.joined(others)
    assert np.array_equal(both.get("X"), np.concatenate([X, -X]))
    assert np.array_equal(both.get("F"), np.concatenate([F, -F]))
    with pytest.raises(KeyError):
        both.column("n_gen")
    some = population[torch.tensor([3, 1])]
    assert (len(some), some.get("n_gen").tolist()) == (2, [3, 3])
    assert np.array_equal(some.get("F"), F[[3, 1]])
    # in memory of their own
    some.column("F").zero_()
    assert np.array_equal(population.get("F"), F)
