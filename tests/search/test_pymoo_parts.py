"""What stands for pymoo's parts with an object for each individual gives what pymoo's own parts give."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pymoo.algorithms.moo.nsga2 import binary_tournament
from pymoo.core.crossover import Crossover
from pymoo.core.duplicate import DefaultDuplicateElimination
from pymoo.core.mating import Mating as PymooMating
from pymoo.core.mutation import Mutation
from pymoo.core.population import Population
from pymoo.core.problem import Problem
from pymoo.core.repair import Repair
from pymoo.operators.selection.tournament import TournamentSelection
from pymoo.operators.survival.rank_and_crowding import RankAndCrowding

from diffgen.config import SearchConfig
from diffgen.search.mating import Mating, NewGenes, niche_winners, tournament_winners
from diffgen.search.survival import crowding_distances, joined, rows_of, survivors, turns
from diffgen.sources.space import Crossing, Mutating, NormalShell, WithClass
from diffgen.sources.tensor_space import SpaceOperators
from tests.search.on_tensors import FEWER, SEEDS, on, on_every_device, population_of, shell

CROSSING = Crossing(gene_probability=0.5, eta=15.0)
MUTATING = Mutating(gene_probability=0.2, category_probability=0.3, eta=20.0)
CONFIG = SearchConfig(
    crossover_probability=0.8,
    mutation_probability=0.6,
    mutation_gene_probability=0.2,
    mutation_class_probability=0.3,
)
STILL = SearchConfig(crossover_probability=0.0, mutation_probability=0.0)


class Eight(Problem):
    """Latent vectors of eight genes, and a class when there are any."""

    def __init__(self, classes: int = 0) -> None:
        inner = NormalShell(8, bound=3.0)
        self.space = WithClass(inner, classes) if classes else inner
        super().__init__(n_var=self.space.length, n_obj=2, xl=self.space.low, xu=self.space.high)


class OurCrossover(Crossover):
    """The space's, as pymoo asks for it."""

    def _do(self, problem: Eight, X: Any, *args: Any, random_state: Any, **kwargs: Any) -> Any:
        return problem.space.crossover(X, CROSSING, random_state)


class OurMutation(Mutation):
    """The space's, as pymoo asks for it."""

    def _do(self, problem: Eight, X: Any, *args: Any, random_state: Any, **kwargs: Any) -> Any:
        return problem.space.mutate(X, MUTATING, random_state)


class OurRepair(Repair):
    """The space's, as pymoo asks for it."""

    def _do(self, problem: Eight, X: Any, **kwargs: Any) -> Any:
        return problem.space.repair(X)


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


def columns_of(population: Population, *names: str) -> dict[str, torch.Tensor]:
    """The same as columns."""
    return {name: torch.from_numpy(population.get(name).astype(float)) for name in ("X", "F", *names)}


@given(st.integers(4, 60), st.integers(0, 1000), st.sampled_from([2, 5, 1000]), st.sampled_from([0, 4]))
def test_mating_makes_the_same_offspring(count: int, seed: int, alike: int, classes: int) -> None:
    problem, population = Eight(classes), ranked(count, seed, classes, alike=alike)
    theirs = PymooMating(
        TournamentSelection(func_comp=binary_tournament),
        OurCrossover(2, 2, prob=0.8),
        OurMutation(prob=0.6),
        repair=OurRepair(),
        eliminate_duplicates=DefaultDuplicateElimination(),
    )
    states = [np.random.default_rng(seed + 1) for _ in range(2)]
    algorithm = SimpleNamespace(tournament_type="comp_by_dom_and_crowding", random_state=states[0])
    expected = theirs.do(problem, population, count, algorithm=algorithm, random_state=states[0])
    ours = Mating(SpaceOperators(problem.space), CONFIG)
    found = ours.offspring(columns_of(population, "crowding"), count, states[1])
    assert np.array_equal(found.numpy(), expected.get("X"))
    # and the search goes on from the same state
    assert states[0].random() == states[1].random()


@on_every_device
def test_offspring_of_tensors_are_new_and_distributed_as_pymoos(device: str) -> None:
    space = shell(4)
    parents = population_of(space, 600, "cpu")
    moved = {name: values.to(device) for name, values in parents.items()}
    their = [Mating(SpaceOperators(space), CONFIG).offspring(parents, 600, np.random.default_rng(s)) for s in range(5)]
    mating = Mating(on(device, space), CONFIG)
    our = [mating.offspring(moved, 600, np.random.default_rng(s)).cpu() for s in range(5)]
    again = mating.offspring(moved, 600, np.random.default_rng(1)).cpu()
    assert torch.equal(again, our[1]) and not torch.equal(again, our[0])
    ours, theirs = torch.cat(our).numpy(), torch.cat(their).numpy()
    assert ours.shape == theirs.shape == (3000, 21)
    np.testing.assert_allclose(space.repair(ours), ours, atol=1e-9)
    for share in (0.01, 0.1, 0.5, 0.9, 0.99):
        # of 60,000 genes: some standard errors
        assert np.quantile(ours[:, :-1], share) == pytest.approx(np.quantile(theirs[:, :-1], share), abs=0.06)
    known = parents["X"][:, 0].numpy()
    # genes that a child has from no parent: crossed or mutated ones
    made = [(~np.isclose(X[:, None, 0], known, rtol=0, atol=1e-12).any(axis=1)).mean() for X in (ours, theirs)]
    assert made[0] == pytest.approx(made[1], abs=0.04)
    assert np.bincount(ours[:, -1].astype(int)) / 3000 == pytest.approx(
        np.bincount(theirs[:, -1].astype(int)) / 3000, abs=0.05
    )
    assert len(np.unique(np.concatenate([our[0].numpy(), parents["X"].numpy()]), axis=0)) == 1200


@on_every_device
def test_mating_ends_when_no_new_offspring_can_be_made(device: str) -> None:
    space = shell()
    parents = population_of(space, 10, device)
    parents["X"] = on(device, space).repair(parents["X"])
    made = Mating(on(device, space), STILL).offspring(parents, 10, np.random.default_rng(0))
    assert made.shape == (0, 20)


@on_every_device
@FEWER
@given(
    count=st.integers(1, 70),
    seed=SEEDS,
    alike=st.sampled_from([1, 2, 6, 1000]),
    objectives=st.integers(1, 3),
    data=st.data(),
)
def test_survival_chooses_the_same(
    device: str, count: int, seed: int, alike: int, objectives: int, data: st.DataObject
) -> None:
    stay = data.draw(st.integers(1, count))
    F = np.random.default_rng(seed).integers(0, alike, (count, objectives)).astype(float)
    population = Population.new(X=np.arange(count)[:, None].astype(float), F=F)
    states = [np.random.default_rng(seed) for _ in range(2)]
    own = {name: values.to(device) for name, values in columns_of(population).items()}
    ours = survivors(own, stay, states[0], niches=False)
    theirs = RankAndCrowding().do(Eight(), population, n_survive=stay, random_state=states[1])
    for name in ("X", "rank"):
        assert np.array_equal(ours[name].cpu().numpy(), theirs.get(name))
    tolerance = 0.0 if device == "cpu" else 1e-6
    np.testing.assert_allclose(
        ours["crowding"].cpu().numpy(), theirs.get("crowding").astype(float), rtol=0, atol=tolerance
    )


@given(st.integers(3, 40), st.integers(0, 99), st.integers(1, 3))
def test_what_got_no_number_from_a_filter_upsets_no_crowding(count: int, seed: int, lost: int) -> None:
    """Rejected without a number, it is infinitely far from acceptance, and counts as the worst that has a number."""
    rng = np.random.default_rng(seed)
    F = rng.random((count, 3))
    front = np.unique(np.sort(rng.integers(0, 2, count)), return_inverse=True)[1]
    rows = rng.choice(count, size=lost, replace=False)
    replaced = F.copy()
    F[rows, 2] = np.inf
    finite = [F[(front == each) & np.isfinite(F[:, 2]), 2] for each in front]
    replaced[rows, 2] = [finite[row].max() if len(finite[row]) else 0.0 for row in rows]
    found, expected = (crowding_distances(torch.from_numpy(each), torch.from_numpy(front)) for each in (F, replaced))
    assert not found.isnan().any()
    assert torch.equal(found, expected)
    # nothing but such: all alike; and nobody at all
    none = torch.full((5, 2), torch.inf, dtype=torch.float64), torch.zeros(5, dtype=torch.int64)
    assert crowding_distances(*none).tolist() == [0.0] * 5
    assert crowding_distances(none[0][:0], none[1][:0]).shape == (0,)


@on_every_device
def test_the_better_one_wins_a_tournament(device: str) -> None:
    F = torch.tensor([[0.0, 0.0], [1.0, 1.0], [0.0, 2.0], [0.0, 2.0]], dtype=torch.float64, device=device)
    crowding = torch.tensor([0.5, 9.0, 0.7, 0.7], dtype=torch.float64, device=device)
    winners = tournament_winners({"F": F, "crowding": crowding}, 6000, np.random.default_rng(0))
    # 0 dominates all; between 1 and the others crowding decides, and between these nothing
    shares = winners.bincount(minlength=4) / 6000
    assert shares.tolist() == pytest.approx([1 / 2, 1 / 3, 1 / 12, 1 / 12], abs=0.03)
    # everybody is drawn before anybody is drawn again
    alike = {"F": F[:1].repeat(50, 1), "crowding": crowding[:1].repeat(50)}
    assert tournament_winners(alike, 25, np.random.default_rng(1)).unique().numel() == 25


@given(st.integers(1, 40), st.integers(1, 3), st.integers(0, 60), SEEDS)
def test_winners_of_niches_are_those_of_a_plain_loop(size: int, objectives: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    niche, F = rng.integers(-1, 4, size), rng.integers(0, 3, (size, objectives)).astype(float)
    crowding = rng.integers(0, 3, size).astype(float)
    columns = {"niche": torch.from_numpy(niche), "F": torch.from_numpy(F), "crowding": torch.from_numpy(crowding)}
    found = niche_winners(columns, count, np.random.default_rng(seed + 1))
    again = np.random.default_rng(seed + 1)
    niches = sorted(set(niche.tolist()))
    drawn = [niches[number] for number in again.integers(len(niches), size=count)]
    for winner, wanted, shares in zip(found.tolist(), drawn, again.random((count, 2)), strict=True):
        members = [row for row in range(size) if niche[row] == wanted]
        first, second = (members[int(share * len(members))] for share in shares)
        better, worse = (F[first] < F[second]).any(), (F[first] > F[second]).any()
        if better == worse:
            better = crowding[first] >= crowding[second]
        assert winner == (first if better else second)


def test_new_genes_are_those_that_pymoo_takes_for_no_doubles() -> None:
    rng = np.random.default_rng(0)
    X, old = rng.integers(0, 3, (60, 3)).astype(float), rng.integers(0, 3, (10, 3)).astype(float)
    theirs = DefaultDuplicateElimination().do(Population.new(X=X), Population.new(X=old))
    new = NewGenes(torch.from_numpy(old))
    made = torch.cat([new.among(torch.from_numpy(X[:40])), new.among(torch.from_numpy(X[40:]))])
    assert 0 < len(made) < 27
    assert np.array_equal(made.numpy(), theirs.get("X"))


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
    assert len(NewGenes(rows[:0]).among(rows)) == len(torch.unique(rows.contiguous().view(torch.int64), dim=0))


def test_columns_are_joined_and_picked() -> None:
    rng = np.random.default_rng(0)
    X, F = torch.from_numpy(rng.random((5, 3))), torch.from_numpy(rng.random((5, 2)))
    population = {"X": X, "F": F, "arm": torch.full((5,), 3)}
    both = joined(population, {"X": -X, "F": -F})
    assert set(both) == {"X", "F"}
    assert torch.equal(both["F"], torch.cat([F, -F]))
    some = rows_of(population, torch.tensor([3, 1]))
    assert some["arm"].tolist() == [3, 3]
    assert torch.equal(some["F"], F[[3, 1]])
    # in memory of their own
    some["F"].zero_()
    assert (F[[3, 1]] > 0).all()


@given(st.lists(st.integers(-1, 4), max_size=40))
def test_turns_count_earlier_members_of_the_same_niche(niches: list[int]) -> None:
    expected = [niches[:i].count(niche) for i, niche in enumerate(niches)]
    assert turns(torch.tensor(niches, dtype=torch.int64)).tolist() == expected


def slow_survivors(F: list[list[float]], niches: list[int], stay: int) -> list[int]:
    """Who stays, one place after the other, with pymoo's own rank and crowding of all."""
    everybody = Population.new(X=np.arange(len(F))[:, None].astype(float), F=np.asarray(F))
    everybody = RankAndCrowding().do(Eight(), everybody, n_survive=len(F), random_state=np.random.default_rng(0))
    order = sorted(everybody, key=lambda one: (one.get("rank"), -one.get("crowding")))
    left = [int(one.X[0]) for one in order]
    kept: list[int] = []
    while len(kept) < stay:
        # one turn: no niche twice
        served = set[int]()
        for one in list(left):
            if len(kept) < stay and niches[one] not in served:
                kept.append(one)
                left.remove(one)
                served.add(niches[one])
    return sorted(kept)


def survivors_of(F: Any, niches: list[int], stay: int, device: str = "cpu") -> list[int]:
    columns = {"X": np.arange(len(F))[:, None].astype(float), "F": np.asarray(F), "niche": np.asarray(niches)}
    population = {name: torch.from_numpy(values).to(device) for name, values in columns.items()}
    kept = survivors(population, stay, np.random.default_rng(0), niches=True)
    return sorted(kept["X"][:, 0].to(torch.int64).tolist())


@on_every_device
@FEWER
@given(niches=st.lists(st.integers(-1, 20), min_size=12, max_size=40), stay=st.integers(1, 12), seed=SEEDS)
def test_survivors_of_niches_are_those_of_a_plain_loop(device: str, niches: list[int], stay: int, seed: int) -> None:
    F = np.random.default_rng(seed).random((len(niches), 2))
    assert survivors_of(F, niches, stay, device) == slow_survivors(F.tolist(), niches, stay)


@given(st.lists(st.integers(-1, 5), min_size=20, max_size=60), st.integers(6, 20), st.integers(0, 99))
def test_no_niche_starves_while_another_feasts(niches: list[int], stay: int, seed: int) -> None:
    """At least as many places as niches (from -1 to 5 there are 7): every niche has its even share, or all it has."""
    F = np.random.default_rng(seed).random((len(niches), 2))
    stay = max(stay, len(set(niches)))
    kept = survivors_of(F, niches, stay)
    assert len(kept) == stay
    there, left = Counter(niches), Counter(niches[i] for i in kept)
    most = max(left.values())
    assert set(left) == set(there)
    assert all(left[niche] >= min(count, most - 1) for niche, count in there.items())
    # within its niche nobody is kept whom a member left out dominates
    for one in kept:
        rivals = [F[i] for i in range(len(niches)) if niches[i] == niches[one] and i not in kept]
        assert not any((rival < F[one]).all() for rival in rivals)


def test_more_niches_than_places_lose_those_whose_best_comes_last() -> None:
    F = np.arange(1000.0)[:, None].repeat(2, axis=1)
    assert survivors_of(F, list(range(1000)), 500) == list(range(500))
