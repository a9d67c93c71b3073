"""Generations that are shared out: who fills a place, who is its parent, and what the bandit is told of it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffgen.search.bandit import Bandit
from diffgen.search.individuals import Individuals
from diffgen.search.mating import niche_winners
from diffgen.search.operators import SpaceCrossover, SpaceMutation
from diffgen.search.proposal import NEW_BEHAVIOUR, NEW_TRIGGER, NOT_ARCHIVED, Answers
from diffgen.search.shares import ARMS, SharedMating, Shares
from diffgen.sources.draws import NumpyDraws
from diffgen.sources.seeds import SeedsAndOperators
from diffgen.sources.space import Box, Crossing, Genes, Mutating, Space, WithCategories

SEEDS = st.integers(0, 10_000)
NONE = torch.empty(0, 1, 4, 4, dtype=torch.uint8)  # pictures, where nobody looks at them


def space_of() -> Space:
    return WithCategories(Box(4), (50, 3))


def shares_of(space: Space, *, niche_parents: float = 0.5, even: bool = True) -> Shares:
    return Shares(space, Bandit(len(ARMS), decay=0.5, even=even), niche_parents=niche_parents)


def mating_of(shares: Shares) -> SharedMating:
    crossover = SpaceCrossover(0.9, Crossing(gene_probability=0.5, eta=15.0))
    mutation = SpaceMutation(1.0, Mutating(gene_probability=1.0, category_probability=0.1, eta=20.0))
    return SharedMating(shares, crossover, mutation)


def population_of(space: Space, count: int, seed: int) -> Individuals:
    rng = np.random.default_rng(seed)
    X = space.repair(space.sample(count, NumpyDraws(rng)))
    population = Individuals.unasked(X)
    population.set("F", rng.integers(0, 4, (count, 2)).astype(float))
    population.set("crowding", rng.random(count))
    population.set("niche", rng.integers(-1, 3, count))
    return population


@given(st.integers(1, 40), st.integers(1, 3), st.integers(0, 60), SEEDS)
def test_winners_of_niches_are_those_of_a_plain_loop(size: int, objectives: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    niche, F = rng.integers(-1, 4, size), rng.integers(0, 3, (size, objectives)).astype(float)
    crowding = rng.integers(0, 3, size).astype(float)
    found = niche_winners(niche, F, crowding, count, np.random.default_rng(seed + 1))
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


@given(st.integers(2, 60), st.integers(1, 50), st.sampled_from([0.0, 0.3, 0.5, 0.75, 1.0]), SEEDS)
def test_a_generation_is_new_and_of_whom_it_was_shared_out_to(
    size: int, count: int, niche_parents: float, seed: int
) -> None:
    space = space_of()
    shares = shares_of(space, niche_parents=niche_parents)
    shares.first(size, np.random.default_rng(seed))
    population = population_of(space, size, seed)
    problem = SimpleNamespace(space=space)
    newcomers, drawn = shares.newcomers, list[int]()
    shares.newcomers = lambda places, rng: drawn.append(places) or newcomers(places, rng)
    made = mating_of(shares).do(problem, population, count, random_state=np.random.default_rng(seed))
    X = made.get("X")
    assert len(X) == count
    assert len({row.tobytes() for row in X} | {row.tobytes() for row in population.get("X")}) == count + size
    np.testing.assert_allclose(space.repair(X), X, atol=1e-12)
    # two arms in turns; for what somebody had before, others take turns in another round
    assert abs(2 * sum(drawn[:1]) - count) <= 1
    other = mating_of(shares).do(problem, population, count, random_state=np.random.default_rng(seed))
    assert np.array_equal(other.get("X"), X)


def test_finds_are_put_down_to_the_arm_that_made_them() -> None:
    space = space_of()
    shares, rng = shares_of(space), np.random.default_rng(0)
    first = shares.first(10, rng)
    shares.learn(first, NONE, answers(np.full(10, NEW_BEHAVIOUR)))
    # all of a first generation are newcomers
    assert shares.checkpoint()["arm_tries"].tolist() == [0, 10]
    assert shares.checkpoint()["arm_rewards"].tolist() == [0, 10]
    newcomers, drawn = shares.newcomers, list[bytes]()

    def noted(places: int, rng: np.random.Generator) -> Genes:
        genes = newcomers(places, rng)
        drawn.extend(row.tobytes() for row in genes)
        return genes

    shares.newcomers = noted  # type: ignore[method-assign]
    made = mating_of(shares).do(SimpleNamespace(space=space), population_of(space, 20, 1), 40, random_state=rng)
    X = made.get("X")
    children = np.array([row.tobytes() not in drawn for row in X])
    shares.learn(X, NONE, answers(np.where(children, NEW_TRIGGER, 0)))
    # of what was known before, half is forgotten
    tries, rewards = shares.checkpoint()["arm_tries"], shares.checkpoint()["arm_rewards"]
    assert tries.tolist() == [children.sum(), 5 + (~children).sum()]
    assert rewards.tolist() == pytest.approx([0.2 * children.sum(), 5])


def answers(named_news: np.ndarray, news: np.ndarray | None = None) -> Answers:
    """Answers of which only what is new is looked at; without ``news`` everything new can be named."""
    nothing = torch.zeros(len(named_news))
    told = torch.from_numpy(named_news if news is None else news)
    archived = torch.where(told > 0, 0, NOT_ARCHIVED)
    return Answers(nothing, nothing, archived, nothing, nothing, nothing, told, torch.from_numpy(named_news))


def test_what_nobody_can_name_is_worth_little_and_more_than_nothing() -> None:
    space = space_of()
    shares = shares_of(space)
    first = shares.first(10, np.random.default_rng(0))
    shares.learn(first, NONE, answers(np.full(10, 0), np.full(10, NEW_BEHAVIOUR)))
    assert 0 < shares.checkpoint()["arm_rewards"][1] < 0.5


def test_seeds_are_told_which_of_their_pictures_showed_something_new() -> None:
    space = SeedsAndOperators(4, 3, 1)
    shares = shares_of(space)
    genes = space.sample(4, NumpyDraws(np.random.default_rng(0)))
    genes[:, space.continuous] = np.arange(4)
    # a new behaviour with a name and one without, another picture of a known one, and what is no find
    named, news = np.array([NEW_BEHAVIOUR, 0, NEW_TRIGGER, 0]), np.array([NEW_TRIGGER, NEW_BEHAVIOUR, NEW_TRIGGER, 0])
    shares.learn(genes, NONE, answers(named, news))
    assert shares.checkpoint()["seed_worth"].tolist() == [1, 0.25, 0, 0]
    assert shares.checkpoint()["seed_tries"].tolist() == [1, 1, 1, 1]
