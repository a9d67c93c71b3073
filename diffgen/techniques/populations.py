"""What techniques share that evolve a population of pictures for each of several real images, side by side."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from diffgen.origins import Origins, Step, recipe_text
from diffgen.search.proposal import NO_PAIR, Answers, Proposal
from diffgen.techniques.base import Checkpoint, RealImages, Technique, TechniqueContext
from diffgen.techniques.seed_turns import SeedTurns
from diffgen.types import Float32Array, Int64Array

UNKNOWN = np.float32(np.inf)  # the fitness of a picture that nobody was asked about


class Populations(Technique):
    """Works on L seeds at once, each as if it were alone; every array has one row for each.

    In a round all pictures are asked about whose fitness is not known, in several proposals where there is little room.
    Then a seed is done that has a picture on which the models disagree, or that has had its rounds: the next one takes
    its place. The others go on with new pictures. After the last image the first is taken again, with other random
    numbers. The settings must have ``population`` and ``rounds``.

    Attributes:
        arrays: names of the arrays, without their underscore, that are the state.
    """

    seed_requirement = "a real image to which all models give the same label"
    arrays: ClassVar[tuple[str, ...]] = ("rows", "pictures", "fitness", "rounds")

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
        self._fitness = np.full((lanes, size), UNKNOWN, dtype=np.float32)
        self._rounds = np.zeros(lanes, dtype=np.int64)
        # of the present round: the seeds of which a picture was called differently, and whether it was told in part
        self._apart = np.zeros(lanes, dtype=np.bool_)
        self._told_in_part = False
        # of the latest proposal: lane and place of each picture
        self._asked: tuple[Int64Array, Int64Array] = (np.empty(0, np.int64), np.empty(0, np.int64))
        self._begun = False  # pictures are made when they are first needed, not before the search begins
        self.prepare(lanes)

    @classmethod
    def seeds(cls, real: RealImages) -> Int64Array:
        return real.all_alike()

    def prepare(self, lanes: int) -> None:
        """Make what the technique remembers of so many seeds, before the first of them begins."""

    @abstractmethod
    def begin(self, lane: int) -> None:
        """Make the first pictures of the seed ``rows[lane]``."""

    @abstractmethod
    def go_on(self, lane: int) -> None:
        """Make new pictures, once the fitness of all is known; that of the new ones becomes ``UNKNOWN``."""

    @abstractmethod
    def fitness_of(self, probabilities: Float32Array) -> Float32Array:
        """float32 (n,), the smaller the fitter, for answers of float32 (n, M, K)."""

    @abstractmethod
    def steps(self, lane: int, place: int) -> tuple[Step, ...]:
        """How a picture came from its seed."""

    def _begin(self, lanes: Int64Array) -> None:
        """Put the next seeds into these lanes."""
        self._rows[lanes] = self._turns.take(len(lanes))
        self._fitness[lanes] = UNKNOWN
        self._rounds[lanes] = 0
        for lane in lanes.tolist():
            self.begin(lane)

    @property
    def between_generations(self) -> bool:
        return not self._told_in_part

    def propose(self, room: int) -> Proposal:
        """The pictures of the round that were not asked about yet, as far as there is room."""
        if not self._begun:
            self._begin(np.arange(len(self._rows)))
            self._begun = True
        lanes, places = np.nonzero(np.isinf(self._fitness))
        self._asked = lanes[:room].astype(np.int64), places[:room].astype(np.int64)
        images = torch.from_numpy(self._pictures[self._asked]).to(self.context.device)
        asked = zip(*(each.tolist() for each in self._asked), strict=True)
        recipes = [recipe_text(self.steps(lane, place)) for lane, place in asked]
        origins = Origins(self._rows[self._asked[0]], tuple(recipes))
        return Proposal(images, generation=self._generation + 1, origins=origins)

    def learn(self, proposal: Proposal, answers: Answers) -> None:
        """Score the pictures; with the last of a round, give up or end seeds, and go on with the others."""
        lanes, places = self._asked
        self._fitness[lanes, places] = self.fitness_of(answers.probabilities.cpu().numpy())
        self._apart[lanes[answers.label_pairs.cpu().numpy() != NO_PAIR]] = True
        self._told_in_part = bool(np.isinf(self._fitness).any())
        if self._told_in_part:
            return
        self._rounds += 1
        done = self._apart | (self._rounds >= self.settings.rounds)
        self._apart[:] = False
        for lane in np.flatnonzero(~done).tolist():
            self.go_on(lane)
        if done.any():
            self._begin(np.flatnonzero(done))
        self._generation += 1

    def checkpoint(self) -> Checkpoint:
        return {
            "generation": self._generation,
            "begun": self._begun,
            "taken": self._turns.taken,
            "random_state": self._rng.bit_generator.state,
            **{name: getattr(self, f"_{name}") for name in self.arrays},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._generation = int(state["generation"])
        self._begun = bool(state.get("begun", True))  # checkpoints of before do not say it
        self._turns.taken = int(state["taken"])
        self._apart[:], self._told_in_part = False, False
        self._rng.bit_generator.state = state["random_state"]
        for name in self.arrays:
            if state[name].shape != getattr(self, f"_{name}").shape:
                raise ValueError(f"{name} is of another number of seeds")
            setattr(self, f"_{name}", state[name])
