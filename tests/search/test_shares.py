"""Generations that are shared out: who fills a place, who is its parent, and what the bandit is told of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffgen.config import SearchConfig
from diffgen.search.mating import Mating
from diffgen.search.proposal import NEW_BEHAVIOUR, NEW_TRIGGER, NOT_ARCHIVED, Answers
from diffgen.search.shares import Bandit, Shares
from diffgen.sources.draws import NumpyDraws
from diffgen.sources.seeds import SeedsAndOperators
from diffgen.sources.space import Box, Space, WithCategories
from diffgen.sources.tensor_space import SpaceOperators
from tests.search.on_tensors import SEEDS, population_of

NO_PICTURES = torch.empty(0, 1, 1, 1, dtype=torch.uint8)  # nobody looks at any without a screen


def shares_of(space: Space) -> Shares:
    config = SearchConfig(mutation_gene_probability=1.0, mutation_class_probability=0.1)
    return Shares(SimpleNamespace(space=space), Mating(SpaceOperators(space), config))


@given(st.integers(2, 60), st.integers(1, 50), SEEDS)
def test_a_generation_is_new_and_each_is_of_an_arm(size: int, count: int, seed: int) -> None:
    space = WithCategories(Box(4), (50, 3))
    shares, parents = shares_of(space), population_of(space, size, "cpu", seed)
    made = shares.offspring(parents, count, np.random.default_rng(seed))
    assert len(made["X"]) == len(made["arm"]) == count
    assert set(made["arm"].tolist()) <= {0, 1}
    assert len(torch.unique(torch.cat([made["X"], parents["X"]]), dim=0)) == count + size
    np.testing.assert_allclose(space.repair(made["X"].numpy()), made["X"].numpy(), atol=1e-12)
    again = shares.offspring(parents, count, np.random.default_rng(seed))
    assert torch.equal(again["X"], made["X"])


def test_newcomers_and_children_are_what_their_arms_say() -> None:
    """A newcomer shares no continuous gene with a parent; of a child that is not mutated every gene is a parent's."""
    space = Box(6)
    config = SearchConfig(crossover_probability=0.0, mutation_gene_probability=0.1)
    shares = Shares(SimpleNamespace(space=space), Mating(SpaceOperators(space), config))
    parents = population_of(space, 100, "cpu")
    made = shares.offspring(parents, 200, np.random.default_rng(0))
    known = torch.isin(made["X"], parents["X"]).double().mean(dim=1)
    assert 20 < (made["arm"] == 1).sum() < 180
    assert (known[made["arm"] == 1] == 0).all()
    assert known[made["arm"] == 0].min() > 0


def test_finds_are_put_down_to_the_arm_that_made_them() -> None:
    space = WithCategories(Box(4), (50, 3))
    shares = shares_of(space)
    first = population_of(space, 10, "cpu")
    shares.learn(first, NO_PICTURES, answers(np.full(10, NEW_BEHAVIOUR)))
    # all of a first generation are newcomers
    assert shares.checkpoint()["arm_tries"].tolist() == [0, 10]
    assert shares.checkpoint()["arm_rewards"].tolist() == [0, 10]
    made = shares.offspring(population_of(space, 20, "cpu", 1), 40, np.random.default_rng(0))
    children = made["arm"].numpy() == 0
    shares.learn(made, NO_PICTURES, answers(np.where(children, NEW_TRIGGER, 0)))
    # of what was known before, a hundredth is forgotten
    tries, rewards = shares.checkpoint()["arm_tries"], shares.checkpoint()["arm_rewards"]
    assert tries.tolist() == pytest.approx([children.sum(), 9.9 + (~children).sum()])
    assert rewards.tolist() == pytest.approx([0.2 * children.sum(), 9.9])


def answers(named_news: np.ndarray, news: np.ndarray | None = None) -> Answers:
    """Answers of which only what is new is looked at; without ``news`` everything new can be named."""
    nothing = torch.zeros(len(named_news))
    told = torch.from_numpy(named_news if news is None else news)
    archived = torch.where(told > 0, 0, NOT_ARCHIVED)
    return Answers(nothing, nothing, archived, nothing, nothing, nothing, told, torch.from_numpy(named_news))


def test_what_nobody_can_name_is_worth_little_and_more_than_nothing() -> None:
    space = WithCategories(Box(4), (50, 3))
    shares = shares_of(space)
    shares.learn(population_of(space, 10, "cpu"), NO_PICTURES, answers(np.full(10, 0), np.full(10, NEW_BEHAVIOUR)))
    assert 0 < shares.checkpoint()["arm_rewards"][1] < 0.5


def test_seeds_are_told_which_of_their_pictures_showed_something_new() -> None:
    space = SeedsAndOperators(4, 3, 1)
    shares = shares_of(space)
    genes = space.sample(4, NumpyDraws(np.random.default_rng(0)))
    genes[:, space.continuous] = np.arange(4)
    # a new behaviour with a name and one without, another picture of a known one, and what is no find
    named, news = np.array([NEW_BEHAVIOUR, 0, NEW_TRIGGER, 0]), np.array([NEW_TRIGGER, NEW_BEHAVIOUR, NEW_TRIGGER, 0])
    shares.learn({"X": torch.from_numpy(genes)}, NO_PICTURES, answers(named, news))
    assert shares.checkpoint()["seed_worth"].tolist() == [1, 0.25, 0, 0]
    assert shares.checkpoint()["seed_tries"].tolist() == [1, 1, 1, 1]


def played(bandit: Bandit, rates: list[float], generations: int, rng: np.random.Generator) -> np.ndarray:
    """The share of each arm after some generations."""
    for _ in range(generations):
        arms = bandit.choose(200, rng)
        bandit.learn(arms, (rng.random(200) < np.array(rates)[arms]).astype(float))
    return np.bincount(bandit.choose(2_000, rng), minlength=2) / 2_000


def test_the_better_arm_is_found_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bandit, "decay", 0.9)
    rng, bandit = np.random.default_rng(0), Bandit()
    shares = played(bandit, [0.02, 0.2], 30, rng)
    assert shares[1] > 0.7
    assert shares.min() > 0.02
    # it runs dry, and the other one takes its place
    assert played(bandit, [0.02, 0.0], 60, rng)[1] < 0.4


def test_a_checkpoint_is_the_whole_state() -> None:
    space = SeedsAndOperators(4, 3, 1)
    shares, other = shares_of(space), shares_of(SeedsAndOperators(4, 3, 1))
    made: Any = {**population_of(space, 40, "cpu"), "arm": torch.arange(40) % 2}
    shares.learn(made, NO_PICTURES, answers(np.arange(40) % 3))
    other.restore(shares.checkpoint())
    parents = population_of(space, 30, "cpu", 1)
    first, second = (each.offspring(parents, 50, np.random.default_rng(1)) for each in (shares, other))
    assert torch.equal(first["X"], second["X"]) and torch.equal(first["arm"], second["arm"])
