"""Shares a generation out among offspring and newcomers, by what each brought lately."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from diffgen.search.bandit import Bandit
from diffgen.search.individuals import Column, Individuals
from diffgen.search.mating import ROUNDS, ArrayMating, FreshGenes, niche_winners, tournament_winners
from diffgen.search.operators import SpaceCrossover, SpaceMutation, SpaceSampling
from diffgen.search.problem import GeneProblem
from diffgen.search.proposal import NEW_BEHAVIOUR, NEW_TRIGGER, Answers
from diffgen.search.seed_finds import SeedFinds
from diffgen.sources.draws import NumpyDraws
from diffgen.sources.space import Genes, Space
from diffgen.types import Int64Array

# A new behaviour on a picture that can be recognised is what is searched for; another picture of one that is known is
# worth something, too, and where nothing is recognised, a new behaviour on whatever picture.
REWARDS = {NEW_BEHAVIOUR: 1.0, NEW_TRIGGER: 0.2}
_UNNAMED = 0.02
_UNNAMED_BEHAVIOUR = 0.25  # in the score of a seed, where a new behaviour on what can be recognised counts 1
_ANEW = 3  # times that what looks like a find is made anew; docs/decisions/033-seeds-and-operators.md
_OFFSPRING, _NEWCOMERS = ARMS = 0, 1


class Shares:
    """Decides who fills the places of a generation, and learns from what came of it.

    Args:
        space: that is searched.
        bandit: with the two ``ARMS``.
        niche_parents: share of the parents that are drawn niche by niche.
        finds: of every real image, where a picture that looks like one of its own is to be made anew; None: everything
            that is made is asked about.
    """

    def __init__(
        self,
        space: Space,
        bandit: Bandit,
        *,
        niche_parents: float,
        finds: SeedFinds | None = None,
    ) -> None:
        self._space = space
        self.finds = finds
        self._bandit = bandit
        self.niche_parents = niche_parents
        self._made: dict[bytes, int] = {}

    def first(self, count: int, rng: np.random.Generator) -> Genes:
        """(count, length): newcomers."""
        self._made = {}
        return self.newcomers(count, rng)

    def choose(self, count: int, rng: np.random.Generator) -> Int64Array:
        """int64 (count,): the arm that fills each of so many places."""
        return self._bandit.choose(count, ARMS, rng)

    def newcomers(self, count: int, rng: np.random.Generator) -> Genes:
        """(count, length): random genes."""
        return self._space.repair(self._space.sample(count, NumpyDraws(rng)))

    def made(self, arms: dict[bytes, int]) -> None:
        """Note the arm of all genes of the generation that is asked about now."""
        self._made = arms

    def learn(self, genes: Genes, images: torch.Tensor, answers: Answers) -> None:
        """Take in what the generation brought: the answers to genes, float64 (N, length), uint8 (N, C, H, W)."""
        # all of a first generation are newcomers
        arms = np.array([self._made.get(row.tobytes(), _NEWCOMERS) for row in genes], dtype=np.int64)
        rewards = np.where(answers.news.numpy() == NEW_BEHAVIOUR, _UNNAMED, 0.0)
        for kind, reward in REWARDS.items():
            rewards[answers.named_news.numpy() == kind] = reward
        self._bandit.learn(arms, rewards)
        worth = np.where(answers.news.numpy() == NEW_BEHAVIOUR, _UNNAMED_BEHAVIOUR, 0.0)
        worth[answers.named_news.numpy() == NEW_BEHAVIOUR] = 1.0
        self._space.learn(genes, worth)
        if self.finds is not None:
            self.finds.learn(self._space.seeds_of(genes), images, answers)

    def checkpoint(self) -> dict[str, Any]:
        """Arrays and JSON values."""
        finds = {} if self.finds is None else self.finds.checkpoint()
        return {**self._bandit.checkpoint(), **self._space.checkpoint(), **finds}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`checkpoint` gave."""
        self._bandit.restore(state)
        self._space.restore(state)
        if self.finds is not None:
            self.finds.restore(state)


class SharedSampling(SpaceSampling):
    """The first generation."""

    def __init__(self, shares: Shares) -> None:
        super().__init__()
        self._shares = shares

    def _do(
        self, problem: GeneProblem, n_samples: int, *args: Any, random_state: np.random.Generator, **kwargs: Any
    ) -> Genes:
        return self._shares.first(n_samples, random_state)


class SharedMating(ArrayMating):
    """Fills every place of a generation as it was shared out: with a child of two parents, or a newcomer."""

    def __init__(self, shares: Shares, crossover: SpaceCrossover, mutation: SpaceMutation) -> None:
        super().__init__(crossover, mutation)
        self._shares = shares

    def _made(self, problem: GeneProblem, pop: Individuals, count: int, rng: np.random.Generator) -> Individuals:
        """Offspring; those that were looked at before anybody is asked about them have their pictures."""
        X = pop.get("X")
        parents = _Parents(X, pop.get("F"), pop.get("crowding"), pop.get("niche"))
        made, arms = FreshGenes(X), dict[bytes, int]()
        self._fill(problem, parents, made, arms, count, rng)
        finds, images = self._shares.finds, None
        if finds is not None and made.rows:
            images, looked_at = problem.pictures(torch.from_numpy(np.array(made.rows))), 0
            for _ in range(_ANEW):
                genes = np.array(made.rows)
                asked = np.ones(len(genes), dtype=np.bool_)
                asked[looked_at:] = ~finds.alike(images[looked_at:], problem.space.seeds_of(genes[looked_at:]))
                if asked.all():
                    break
                made.rows[:] = list(genes[asked])
                looked_at = len(made.rows)
                self._fill(problem, parents, made, arms, count, rng)
                anew = torch.from_numpy(np.array(made.rows[looked_at:]).reshape(-1, X.shape[1]))
                images = torch.cat([images[torch.from_numpy(asked).to(images.device)], problem.pictures(anew)])
        self._shares.made(arms)
        order = rng.permutation(len(made.rows))[:count]
        offspring = Individuals.unasked(np.array([made.rows[row] for row in order]).reshape(-1, X.shape[1]))
        if images is not None:
            offspring.set("images", images[torch.from_numpy(order).to(images.device)])
        return offspring

    def _fill(
        self,
        problem: GeneProblem,
        parents: _Parents,
        made: FreshGenes,
        arms: dict[bytes, int],
        count: int,
        rng: np.random.Generator,
    ) -> None:
        """Make genes until there are ``count``, and note the arm of each."""
        for _ in range(ROUNDS):
            if len(made.rows) >= count:
                break
            places = np.bincount(self._shares.choose(count - len(made.rows), rng))
            for arm in np.flatnonzero(places).tolist():
                genes = self._filled(problem, parents, arm, int(places[arm]), rng)
                arms |= dict.fromkeys(made.take(genes), arm)

    def _filled(
        self, problem: GeneProblem, parents: _Parents, arm: int, count: int, rng: np.random.Generator
    ) -> Column:
        """Genes for so many places of an arm."""
        if arm == _NEWCOMERS:
            return self._shares.newcomers(count, rng)
        matings = math.ceil(count / 2)
        chosen = parents.chosen(2 * matings, self._shares.niche_parents, rng).reshape(matings, 2)
        children = self.crossover.apply(problem, parents.X[chosen.T], rng)
        mutated = self.mutation.apply(problem, children.reshape(-1, parents.X.shape[1]), rng)
        return np.asarray(self.repair._do(problem, mutated, random_state=rng))[:count]


class _Parents:
    """A population as arrays, row by row."""

    def __init__(self, X: Column, F: Column, crowding: Column, niche: Column) -> None:
        self.X, self.F, self.crowding, self.niche = X, F, crowding, niche

    def chosen(self, count: int, by_niche: float, rng: np.random.Generator) -> Int64Array:
        """int64 (count,): rows of winners of tournaments, a share of them held niche by niche."""
        turns = round(by_niche * count)
        winners = tournament_winners(self.F, self.crowding, count - turns, rng)
        return rng.permutation(np.r_[winners, niche_winners(self.niche, self.F, self.crowding, turns, rng)])
