"""What replaces pymoo's parts one individual at a time gives what pymoo's own parts give."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymoo.algorithms.moo.nsga2 import binary_tournament
from pymoo.core.mating import Mating
from pymoo.core.population import Population
from pymoo.core.problem import Problem
from pymoo.operators.selection.tournament import TournamentSelection
from pymoo.operators.survival.rank_and_crowding import RankAndCrowding

from diffgen.search.columns import column, new_population, set_columns
from diffgen.search.mating import ArrayMating, tournament_winners
from diffgen.search.operators import HashDuplicateElimination, SpaceCrossover, SpaceMutation, SpaceRepair
from diffgen.search.survival import RescoringSurvival, crowding_distances
from diffgen.sources.space import Crossing, Mutating, NormalShell, WithClass


class Eight(Problem):
    """Latent vectors of eight genes, and a class when there are any."""

    def __init__(self, classes: int) -> None:
        shell = NormalShell(8, bound=3.0)
        self.space = WithClass(shell, classes) if classes else shell
        super().__init__(n_var=self.space.length, n_obj=2, xl=self.space.low, xu=self.space.high)

    def rescore(self, population: Population) -> None:
        pass

    def retain(self, population: Population) -> None:
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


@given(st.integers(4, 60), st.integers(0, 1000), st.sampled_from([2, 5, 1000]), st.sampled_from([0, 4]))
def test_mating_makes_the_same_offspring(count: int, seed: int, alike: int, classes: int) -> None:
    space, population = Eight(classes), ranked(count, seed, classes, alike=alike)
    crossover = SpaceCrossover(0.8, Crossing(gene_probability=0.5, eta=15.0))
    mutation = SpaceMutation(0.6, Mutating(gene_probability=0.2, category_probability=0.3, eta=20.0))
    shared = {"repair": SpaceRepair(), "eliminate_duplicates": HashDuplicateElimination()}
    theirs = Mating(TournamentSelection(func_comp=binary_tournament), crossover, mutation, **shared)
    ours = ArrayMating(None, crossover, mutation, repair=SpaceRepair())
    states = [np.random.default_rng(seed + 1) for _ in range(2)]
    algorithm = SimpleNamespace(tournament_type="comp_by_dom_and_crowding", random_state=states[0])
    expected = theirs.do(space, population, count, algorithm=algorithm, random_state=states[0])
    found = ours.do(space, population, count, algorithm=None, random_state=states[1])
    assert np.array_equal(found.get("X"), expected.get("X"))
    # and the search goes on from the same state
    assert states[0].random() == states[1].random()


def test_mating_ends_when_no_new_offspring_can_be_made() -> None:
    still = ArrayMating(
        None,
        SpaceCrossover(0.0, Crossing(gene_probability=0.5, eta=15.0)),
        SpaceMutation(0.0, Mutating(gene_probability=0.1, category_probability=0.0, eta=20.0)),
    )
    made = still.do(Eight(0), ranked(10, 0, 0, alike=1000), 10, random_state=np.random.default_rng(0))
    assert len(made) == 0


@given(st.integers(1, 70), st.integers(0, 1000), st.sampled_from([1, 2, 6, 1000]), st.integers(1, 3), st.data())
def test_survival_chooses_the_same(count: int, seed: int, alike: int, objectives: int, data: st.DataObject) -> None:
    survivors = data.draw(st.integers(1, count))
    F = np.random.default_rng(seed).integers(0, alike, (count, objectives)).astype(float)
    kept = []
    for survival in (RankAndCrowding(), RescoringSurvival()):
        population = Population.new(X=np.arange(count)[:, None].astype(float), F=F)
        kept.append(survival.do(Eight(0), population, n_survive=survivors, random_state=np.random.default_rng(seed)))
    theirs, ours = kept
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


def test_columns_are_what_get_and_set_give() -> None:
    rng = np.random.default_rng(0)
    population = new_population(rng.random((5, 3)))
    assert isinstance(population, Population)
    assert len(new_population(np.empty((0, 3)))) == 0
    F, uid = rng.random((5, 2)), np.arange(5)
    set_columns(population, {"F": F, "uid": uid})
    for name, expected in (("F", F), ("uid", uid)):
        assert np.array_equal(population.get(name), expected)
        assert np.array_equal(column(population, name), expected)
    assert np.array_equal(column(population, "X"), population.get("X"))
    # each individual has memory of its own
    F[:] = 0
    assert population.get("F").min() > 0
