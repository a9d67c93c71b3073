"""Shares a generation out among offspring and newcomers, by what each brought lately."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.search.mating import ROUNDS, Mating, NewGenes, niche_winners, tournament_winners
from diffgen.search.problem import GeneProblem
from diffgen.search.proposal import NEW_BEHAVIOUR, NEW_TRIGGER, Answers
from diffgen.search.screen import Screen
from diffgen.search.survival import Population, rows_of
from diffgen.sources.draws import NumpyDraws
from diffgen.types import Int64Array

# A new behaviour on a picture that can be recognised is what is searched for; another picture of one that is known is
# worth something, too, and where nothing is recognised, a new behaviour on whatever picture.
REWARDS = {NEW_BEHAVIOUR: 1.0, NEW_TRIGGER: 0.2}
_UNNAMED = 0.02
_UNNAMED_BEHAVIOUR = 0.25  # in the score of a seed, where a new behaviour on what can be recognised counts 1
_ROUNDS = 8  # of screening, until a generation is full; what is left then is filled with pictures that did not pass
_NICHE_PARENTS = 0.5  # share of the parents that are drawn niche by niche
_OFFSPRING, _NEWCOMERS = 0, 1  # the arms


class Bandit:
    """Thompson sampling with forgetting: chooses offspring or newcomers by what each brought lately.

    V. Raj and S. Kalyani, "Taming Non-stationary Bandits: A Bayesian Approach" (2017): the counts of a Beta posterior
    are multiplied by a factor below 1 before new ones are added, so that what an arm brought long ago is forgotten.

    Attributes:
        rewards, tries: float64 (2,), how much reward each arm brought for how many tries.
    """

    decay = 0.99  # what is left of both in the next generation
    # Tries that a posterior speaks for at most. A generation is some hundred tries: without a limit the best arm would
    # be told from the second best within a few generations, and get everything although arms run dry.
    most = 400.0
    least_share = 0.05  # of the tries that each arm gets, whatever it brought

    def __init__(self) -> None:
        self.rewards: NDArray[np.float64] = np.zeros(2)
        self.tries: NDArray[np.float64] = np.zeros(2)

    def choose(self, count: int, rng: np.random.Generator) -> Int64Array:
        """int64 (count,): the arm of each try, in random order."""
        arms = len(self.tries)
        weight = np.minimum(1.0, self.most / np.maximum(self.tries, 1.0))
        rewards = self.rewards * weight
        drawn = rng.beta(1 + rewards, 1 + np.maximum(self.tries * weight - rewards, 0.0), (count, arms))
        floor = rng.random(count) < self.least_share * arms
        return np.where(floor, rng.integers(arms, size=count), drawn.argmax(axis=1))

    def learn(self, arms: Int64Array, rewards: NDArray[np.float64]) -> None:
        """Take in what a generation brought: the arm of each try, and its reward from 0 to 1."""
        self.rewards = self.decay * self.rewards + np.bincount(arms, rewards, minlength=2)
        self.tries = self.decay * self.tries + np.bincount(arms, minlength=2)


class Shares:
    """Fills every place of a generation with a child of two parents or a newcomer, and learns from what came of it.

    Args:
        problem: draws pictures that are looked at before anybody is asked about them; its space makes newcomers.
        screen: chooses among many candidates; None: everything that is made is asked about.
    """

    def __init__(self, problem: GeneProblem, mating: Mating, screen: Screen | None = None) -> None:
        self._problem, self._space, self._mating, self._screen = problem, problem.space, mating, screen
        self._bandit = Bandit()

    def offspring(self, parents: Population, count: int, rng: np.random.Generator) -> dict[str, torch.Tensor]:
        """At most so many new individuals: X, the ``arm`` of each, and ``images`` where screening drew them.

        Without parents all are newcomers.
        """
        if self._screen is None:
            X, arms = self._filled(parents, NewGenes(parents["X"]), count, rng)
            order = torch.from_numpy(rng.permutation(len(X))[:count])
            return {"X": X[order], "arm": arms[order]}
        return self._screened(self._screen, parents, count, rng)

    def _screened(
        self, screen: Screen, parents: Population, count: int, rng: np.random.Generator
    ) -> dict[str, torch.Tensor]:
        """New individuals whose pictures passed, and where these are too few, of the first that were drawn."""
        new, parts, others, left = NewGenes(parents["X"]), list[dict[str, torch.Tensor]](), None, count
        for _ in range(_ROUNDS):
            X, arms = self._filled(parents, new, left * screen.candidates, rng)
            if left == 0 or len(X) == 0:
                break
            rows = torch.from_numpy(screen.best(X.numpy(), left, rng))
            drawn = {"X": X[rows], "arm": arms[rows]}
            shown = self._problem.previews(X[rows]) if screen.any_size else None
            if shown is None:
                shown = drawn["images"] = self._problem.pictures(X[rows])
            passes = torch.from_numpy(screen.passes(drawn["X"].numpy(), shown))
            parts.append(rows_of(drawn, passes))
            others = rows_of(drawn, ~passes) if others is None else others
            left -= int(passes.sum())
        if others is None:
            return {"X": parents["X"][:0]}
        return {name: torch.cat([each[name] for each in (*parts, others)])[:count] for name in others}

    def _filled(
        self, parents: Population, new: NewGenes, count: int, rng: np.random.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """New genes for so many places, float64 (n, length), and the arm of each, int64 (n,)."""
        made, arms = [parents["X"][:0]], [torch.empty(0, dtype=torch.int64)]
        for _ in range(ROUNDS):
            left = count - sum(map(len, made))
            if left <= 0:
                break
            chosen = self._bandit.choose(left, rng) if len(parents["X"]) else np.full(left, _NEWCOMERS)
            places = np.bincount(chosen)
            for arm in np.flatnonzero(places).tolist():
                of_arm = self._newcomers if arm == _NEWCOMERS else self._children
                made.append(new.among(of_arm(parents, int(places[arm]), rng)))
                arms.append(torch.full((len(made[-1]),), arm))
        return torch.cat(made), torch.cat(arms)

    def _newcomers(self, parents: Population, count: int, rng: np.random.Generator) -> torch.Tensor:
        """float64 (count, length): random genes."""
        return torch.from_numpy(self._space.repair(self._space.sample(count, NumpyDraws(rng))))

    def _children(self, parents: Population, count: int, rng: np.random.Generator) -> torch.Tensor:
        """float64 (count, length): of winners of tournaments, a share of them held niche by niche."""
        wanted = 2 * math.ceil(count / 2)
        by_niche = round(_NICHE_PARENTS * wanted)
        winners = tournament_winners(parents, wanted - by_niche, rng)
        winners = torch.cat([winners, niche_winners(parents, by_niche, rng)])
        return self._mating.children(parents, winners[torch.from_numpy(rng.permutation(wanted))], rng)[:count]

    def learn(self, generation: Population, images: torch.Tensor, answers: Answers) -> None:
        """Take in what a generation brought.

        Args:
            generation: with X; without an ``arm`` all of it are newcomers.
            images: uint8 (N, C, H, W).
        """
        genes, news, named = generation["X"].numpy(), answers.news.numpy(), answers.named_news.numpy()
        arms = generation["arm"].numpy() if "arm" in generation else np.full(len(genes), _NEWCOMERS)
        rewards = np.where(news == NEW_BEHAVIOUR, _UNNAMED, 0.0)
        for kind, reward in REWARDS.items():
            rewards[named == kind] = reward
        self._bandit.learn(arms, rewards)
        worth = np.where(news == NEW_BEHAVIOUR, _UNNAMED_BEHAVIOUR, 0.0)
        worth[named == NEW_BEHAVIOUR] = 1.0
        if self._screen is not None:
            self._screen.learn(genes, images, answers)
        self._space.learn(genes, worth)

    def checkpoint(self) -> dict[str, Any]:
        """Arrays and JSON values."""
        screen = {} if self._screen is None else self._screen.checkpoint()
        arms = {"arm_rewards": self._bandit.rewards, "arm_tries": self._bandit.tries}
        return {**arms, **self._space.checkpoint(), **screen}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`checkpoint` gave."""
        self._bandit.rewards, self._bandit.tries = np.array(state["arm_rewards"]), np.array(state["arm_tries"])
        self._space.restore(state)
        if self._screen is not None:
            self._screen.restore(state)
