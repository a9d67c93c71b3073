"""DiffChaser: a genetic search over the pixels of one picture, toward where the models are least sure.

X. Xie et al., "DiffChaser: Detecting Disagreements for Deep Neural Networks", IJCAI 2019 (Algorithm 1).

A seed is a real image to which all models give the same label. Its population is the image, mutated ``population``
times. In each round all but the fittest are replaced: two are selected, crossed over, and the child is mutated at the
rate ``rate`` (r2 in the paper). The seed is done when one of its pictures is called differently, or after ``rounds``
rounds. Fitness is *k-uncertainty*: the gap between a model's highest probability and its k-th, smallest over the
models; the smaller the fitter. Near a boundary between two classes a small difference between the models is enough.

The authors published no code, and what public text says leaves some things open. Ours, therefore:

* selection is a tournament of two; crossover takes each pixel, in all its channels, from either parent; a mutation
  adds up to ``step`` grey levels to a pixel, or takes them away, of one pixel at least; the first mutants are made at
  the same rate.
* the population (20), the rate (1 %), the step (64) and the rounds (100) are ours; k is 2.
* as many seeds as a batch has room for are worked on at once, each as if it were alone. After the last image the first
  is taken again, with other random numbers.
* the fitness is defined for any number of models, and so is the technique. The basic and the targeted fitness are left
  out: the first asks two models for one class, the second wants a class to be named.

There is no validity check in the search, as in the paper; diffgen's filters judge afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from diffgen.config import SearchConfig
from diffgen.config.schema import setting, settings
from diffgen.origins import Origins, Step, recipe_text
from diffgen.search.proposal import NO_PAIR, Answers, Proposal
from diffgen.techniques.base import Checkpoint, Needs, RealImages, Technique, TechniqueContext
from diffgen.techniques.seed_turns import SeedTurns
from diffgen.types import Float32Array, Int64Array, UInt8Array

_UNKNOWN = np.float32(np.inf)  # the fitness of a picture that nobody was asked about


@settings("search.diffchaser")
class DiffChaserSettings:
    """Settings of DiffChaser."""

    population: int = setting(20, "Pictures made of one seed at a time (m).", ge=2, le=1000)
    rate: float = setting(0.01, "Share of the pixels that a mutation changes (r2).", ge=0.0001, le=1)
    step: int = setting(64, "Most grey levels by which a pixel is changed.", ge=1, le=255)
    rounds: int = setting(100, "Rounds on one seed before it is given up.", ge=1, le=10**6)
    k: int = setting(2, "The gap is that of the highest probability and the k-th.", ge=2, le=100)


def k_uncertainty(probabilities: Float32Array, k: int) -> Float32Array:
    """float32 (N,): gap of the highest and the k-th probability, smallest over the models, for float32 (N, M, K).

    With fewer than k classes the lowest probability stands for the k-th.
    """
    ordered = np.sort(probabilities, axis=2)[:, :, ::-1]
    place = min(k, probabilities.shape[2]) - 1
    return np.asarray((ordered[:, :, 0] - ordered[:, :, place]).min(axis=1))


def crossed(one: UInt8Array, other: UInt8Array, rng: np.random.Generator) -> UInt8Array:
    """Each pixel from one of two parents, in all its channels, for uint8 (N, C, H, W) twice."""
    chosen = rng.random((len(one), 1, *one.shape[2:])) < 0.5
    return np.where(chosen, one, other).astype(np.uint8)


def changed(images: UInt8Array, rate: float, step: int, rng: np.random.Generator) -> UInt8Array:
    """Some pixels of uint8 (N, C, H, W), one of each image at least, made lighter or darker by up to ``step``.

    Each channel of a pixel is changed by its own amount.
    """
    drawn = rng.random((len(images), 1, *images.shape[2:]))
    # a picture without any change would be a question that was asked already
    here = (drawn < rate) | (drawn == drawn.min(axis=(1, 2, 3), keepdims=True))
    by = rng.integers(1, step + 1, images.shape) * rng.choice([-1, 1], images.shape)
    return np.clip(images.astype(np.int64) + np.where(here, by, 0), 0, 255).astype(np.uint8)


def winners(fitness: Float32Array, children: int, rng: np.random.Generator) -> Int64Array:
    """int64 (children,): the fitter of two that are drawn at random, for float32 (m,); the first of two as fit."""
    drawn = rng.integers(0, len(fitness), (children, 2))
    return np.where(fitness[drawn[:, 1]] < fitness[drawn[:, 0]], drawn[:, 1], drawn[:, 0]).astype(np.int64)


class DiffChaser(Technique):
    """Works on L seeds at once; every array below has one row for each. One round is one generation of every seed."""

    seed_requirement = "a real image to which all models give the same label"
    Settings = DiffChaserSettings

    def __init__(self, context: TechniqueContext) -> None:
        super().__init__(context)
        self._real = context.need_real()
        self._turns = SeedTurns(self.seeds(self._real), context.seed)
        self._rng = np.random.default_rng([context.seed, 0])
        self._generation = 0
        size = self.settings.population
        lanes = max(1, min(context.batch_size // size, len(self._turns)))
        self._rows = np.zeros(lanes, dtype=np.int64)
        self._pictures = np.zeros((lanes, size, *self._real.images.shape[1:]), dtype=np.uint8)
        self._fitness = np.full((lanes, size), _UNKNOWN, dtype=np.float32)
        self._rounds = np.zeros(lanes, dtype=np.int64)
        self._begin(np.arange(lanes))
        # of the present round: the seeds of which a picture was called differently, and whether it was told in part
        self._apart = np.zeros(lanes, dtype=np.bool_)
        self._told_in_part = False
        # of the latest proposal: lane and place of each picture
        self._asked: tuple[Int64Array, Int64Array] = (np.empty(0, np.int64), np.empty(0, np.int64))

    @classmethod
    def needs(cls, config: SearchConfig) -> Needs:
        return Needs()

    @classmethod
    def seeds(cls, real: RealImages) -> Int64Array:
        return real.all_alike()

    def _begin(self, lanes: Int64Array) -> None:
        """Put the next seeds into these lanes, each with its first mutants."""
        self._rows[lanes] = self._turns.take(len(lanes))
        for lane in lanes.tolist():
            copies = np.repeat(self._real.images[self._rows[lane]][None], self.settings.population, axis=0)
            self._pictures[lane] = changed(copies, self.settings.rate, self.settings.step, self._rng)
        self._fitness[lanes] = _UNKNOWN
        self._rounds[lanes] = 0

    @property
    def between_generations(self) -> bool:
        return not self._told_in_part

    def propose(self, room: int) -> Proposal:
        """The pictures of the round that were not asked about yet, as far as there is room."""
        lanes, places = np.nonzero(np.isinf(self._fitness))
        self._asked = lanes[:room].astype(np.int64), places[:room].astype(np.int64)
        images = torch.from_numpy(self._pictures[self._asked]).to(self.context.device)
        recipes = [
            recipe_text((Step("evolved_pixels", (("rounds", float(rounds)),)),))
            for rounds in (self._rounds[self._asked[0]] + 1).tolist()
        ]
        origins = Origins(self._rows[self._asked[0]], tuple(recipes))
        return Proposal(images, generation=self._generation + 1, origins=origins)

    def learn(self, proposal: Proposal, answers: Answers) -> None:
        """Score the pictures; with the last of a round, give up or end seeds, and breed from the others."""
        lanes, places = self._asked
        self._fitness[lanes, places] = k_uncertainty(answers.probabilities.cpu().numpy(), self.settings.k)
        self._apart[lanes[answers.label_pairs.cpu().numpy() != NO_PAIR]] = True
        self._told_in_part = bool(np.isinf(self._fitness).any())
        if self._told_in_part:
            return
        self._rounds += 1
        done = self._apart | (self._rounds >= self.settings.rounds)
        self._apart[:] = False
        for lane in np.flatnonzero(~done).tolist():
            self._breed(lane)
        if done.any():
            self._begin(np.flatnonzero(done))
        self._generation += 1

    def _breed(self, lane: int) -> None:
        """All but the fittest become children of two selected ones."""
        pictures, fitness = self._pictures[lane], self._fitness[lane]
        others = np.delete(np.arange(len(fitness)), fitness.argmin())
        one, other = (winners(fitness, len(others), self._rng) for _ in range(2))
        children = crossed(pictures[one], pictures[other], self._rng)
        pictures[others] = changed(children, self.settings.rate, self.settings.step, self._rng)
        fitness[others] = _UNKNOWN

    def checkpoint(self) -> Checkpoint:
        return {
            "generation": self._generation,
            "taken": self._turns.taken,
            "random_state": self._rng.bit_generator.state,
            **{name: getattr(self, f"_{name}") for name in _ARRAYS},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._generation = int(state["generation"])
        self._turns.taken = int(state["taken"])
        self._apart[:], self._told_in_part = False, False
        self._rng.bit_generator.state = state["random_state"]
        for name in _ARRAYS:
            if state[name].shape != getattr(self, f"_{name}").shape:
                raise ValueError(f"{name} is of another number of seeds")
            setattr(self, f"_{name}", state[name])


_ARRAYS = ("rows", "pictures", "fitness", "rounds")
