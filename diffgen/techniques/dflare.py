"""DFlare: mutate a picture step by step, keep the steps that lead to new or more different answers.

Y. Tian et al., "Finding Deviated Behaviors of the Compressed DNN Models for Image Classifications", TOSEM 2023.

A seed is a real image on which both models agree. It is mutated by one of seven mutators, chosen by their success
(:mod:`diffgen.techniques.mutation.choice`), until the models disagree or ``mutations`` of them (100, as in the
published code; its scripts say 10,000,000 and 240 seconds) were tried. A mutant takes the place of what it was made
from when its state is new, or when the models' highest probabilities are further apart than ever on this seed. The
state is both models' probabilities side by side; it is new when its squared distance to every state kept before is
above 0.5 (TensorFuzz's rule). A mutator is rewarded when its mutant is kept or triggers; its score is rewards / times
used. All of this begins anew with every seed, so that one seed gives one trigger at most.

Different from the published code, where that is at fault:

* as many seeds as a batch has room for are worked on at once, each as if it were alone; the models are asked about one
  batch, not about one image twice.
* there, a mutant is kept when the gap of the highest probabilities has *changed* by 0.001, also when it has shrunk.
  Here it must be larger than the largest before, which begins with that of the seed and not with 0.
* there, the place of the last mutator is never found (a name is compared with an object), so that the walk has no
  memory. Here it has.
* states are looked up exactly, not in an approximate index that is rebuilt after every fifth.
* noise is rounded and cut to 0..255. There it is cut off to whole numbers, which undoes the Gaussian noise (deviation
  0.3 grey levels) where it is positive, and wraps around below 0.
* between 1 and 9 values are changed by the pixel mutator, not between 0 and 9; blurs of one pixel are left out; a
  mutant that equals its picture is not asked about, but counts as a try.
* all random numbers come from one seed. After the last image the first is taken again, with other random numbers;
  there, the program ends.

There is no validity check in the search, as in the paper; diffgen's filters judge afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from diffgen.config.schema import setting, settings
from diffgen.origins import Origins, extended
from diffgen.search.proposal import NO_PAIR, Answers, Proposal
from diffgen.techniques.base import Checkpoint, RealImages, Technique, TechniqueContext
from diffgen.techniques.mutation import FIRST, Mutator, choose, levels, mutate, neighbourhood
from diffgen.techniques.seed_turns import SeedTurns
from diffgen.types import Float32Array, Int64Array

_GAUSSIANS = [neighbourhood.gaussian(side) for side in (3, 5, 7)]
MUTATORS: dict[str, Mutator] = {
    "gaussian noise": levels.gaussian_noise([0.1]),
    "salt and pepper": levels.salt_and_pepper(0.004),
    "multiplicative noise": levels.dimming_noise(0.5, 0.05),
    "pixels": levels.pixels(9),
    "box blur": neighbourhood.blur([neighbourhood.box(side) for side in (2, 3, 4, 5)]),
    "gaussian blur": neighbourhood.blur(_GAUSSIANS),
    "median blur": neighbourhood.blur([neighbourhood.median(side) for side in (3, 5, 7)]),
}
NEW_STATE = 0.5  # squared distance
MIN_GAP_GROWTH = 1e-3  # by which a gap must be larger


def is_new(states: Float32Array, kept: Float32Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """bool (L,): whether each state is far from every one that was kept for the same seed.

    Args:
        states: float32 (L, D).
        kept: float32 (L, S, D); rows of infinity stand for none.
    """
    squared = ((kept - states[:, None]) ** 2).sum(axis=2)
    return np.asarray((squared > NEW_STATE).all(axis=1))


def gap(probabilities: Float32Array) -> Float32Array:
    """float32 (L,): how far apart the highest probabilities of two models are, for float32 (L, 2, K)."""
    highest = probabilities.max(axis=2)
    return np.asarray(np.abs(highest[:, 0] - highest[:, 1]))


@settings("search.dflare")
class DFlareSettings:
    """Settings of DFlare."""

    mutations: int = setting(100, "Mutations tried on one seed before it is given up.", ge=1, le=10**6)


class DFlare(Technique):
    """Works on L seeds at once; every array below has one row for each. One round is one mutation of every seed."""

    name = "dflare"
    models = 2
    seed_requirement = "a real image to which both models give the same label"
    Settings = DFlareSettings

    def __init__(self, context: TechniqueContext) -> None:
        super().__init__(context)
        self._real = context.need_real()
        self._turns = SeedTurns(self.seeds(self._real), context.seed)
        self._rng = np.random.default_rng([context.seed, 0])
        self._rounds = 0
        lanes = min(context.side_by_side, len(self._turns))
        classes = self._real.answers.count
        self._rows = np.zeros(lanes, dtype=np.int64)
        self._recipes = [""] * lanes  # of the pictures
        self._pictures = np.zeros((lanes, *self._real.images.shape[1:]), dtype=np.uint8)
        self._largest = np.zeros(lanes, dtype=np.float32)
        self._tried = np.zeros(lanes, dtype=np.int64)
        self._last = np.full(lanes, FIRST, dtype=np.int64)
        self._rewards = np.zeros((lanes, len(MUTATORS)), dtype=np.int64)
        self._used = np.zeros((lanes, len(MUTATORS)), dtype=np.int64)
        self._states = np.full((lanes, 1, 2 * classes), np.inf, dtype=np.float32)
        self._begin(np.arange(lanes))
        # of the latest proposal: the seeds that it holds a mutant of, and which mutator made each
        self._proposed = np.empty(0, dtype=np.int64)
        self._which = np.empty(0, dtype=np.int64)

    @classmethod
    def seeds(cls, real: RealImages) -> Int64Array:
        return real.all_alike()

    def _begin(self, lanes: Int64Array) -> None:
        """Put the next seeds into these lanes."""
        self._rows[lanes] = rows = self._turns.take(len(lanes))
        for lane in lanes.tolist():
            self._recipes[lane] = ""
        probabilities = self._real.answers[rows].dense()
        self._pictures[lanes] = self._real.images[rows]
        self._largest[lanes] = gap(probabilities)
        self._tried[lanes] = 0
        self._last[lanes] = FIRST
        self._rewards[lanes] = 0
        self._used[lanes] = 0
        self._states[lanes] = np.inf
        self._states[lanes, 0] = probabilities.reshape(len(rows), -1)

    def warm_up(self) -> None:
        _GAUSSIANS[0](self._real.images[:1])

    def propose(self, room: int) -> Proposal:
        """One mutation of every seed; those that change their picture, as far as there is room."""
        lanes = np.arange(len(self._rows))
        self._which = choose(self._rewards / np.maximum(self._used, 1), self._last, self._rng)
        mutated = mutate(self._pictures, self._which, list(MUTATORS.values()), self._rng)
        mutants = mutated.images
        self._used[lanes, self._which] += 1
        self._tried += 1
        self._proposed = np.flatnonzero((mutants != self._pictures).any(axis=(1, 2, 3)))[:room]
        images = torch.from_numpy(mutants[self._proposed]).to(self.context.device)
        recipes = (extended(self._recipes[lane], mutated.steps[lane]) for lane in self._proposed.tolist())
        origins = Origins(self._rows[self._proposed], tuple(recipes))
        return Proposal(images, generation=self._rounds + 1, origins=origins)

    def learn(self, proposal: Proposal, answers: Answers) -> None:
        """Keep mutants, reward mutators, and give the seeds that are done with their places to the next."""
        done = self._tried >= self.settings.mutations
        changed, which = self._proposed, self._which
        if len(changed) > 0:
            assert proposal.origins is not None
            triggered = answers.label_pairs.cpu().numpy() != NO_PAIR
            kept = self._keep(changed, proposal.images.cpu().numpy(), answers.probabilities.cpu().numpy())
            for place in np.flatnonzero(kept).tolist():
                self._recipes[changed[place]] = proposal.origins.recipes[place]
            rewarded = changed[kept | triggered]
            self._rewards[rewarded, which[rewarded]] += 1
            self._last[rewarded] = which[rewarded]
            done[changed[triggered]] = True
        if done.any():
            self._begin(np.flatnonzero(done))
        self._rounds += 1

    def _keep(
        self, lanes: Int64Array, mutants: np.ndarray[Any, np.dtype[np.uint8]], probabilities: Float32Array
    ) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """bool (n,): which mutants take the place of what they were made from; done here."""
        states, gaps = probabilities.reshape(len(lanes), -1), gap(probabilities)
        new = is_new(states, self._states[lanes])
        kept = new | (gaps > self._largest[lanes] + MIN_GAP_GROWTH)
        self._pictures[lanes[kept]] = mutants[kept]
        self._largest[lanes[kept]] = np.maximum(self._largest[lanes[kept]], gaps[kept])
        places = np.isfinite(self._states[:, :, 0]).sum(axis=1)
        if new.any() and places[lanes[new]].max() == self._states.shape[1]:
            self._states = np.concatenate([self._states, np.full_like(self._states, np.inf)], axis=1)
        self._states[lanes[new], places[lanes[new]]] = states[new]
        return np.asarray(kept)

    def checkpoint(self) -> Checkpoint:
        return {
            "rounds": self._rounds,
            "taken": self._turns.taken,
            "random_state": self._rng.bit_generator.state,
            "recipes": list(self._recipes),
            **{name: getattr(self, f"_{name}") for name in _ARRAYS},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._rounds = int(state["rounds"])
        self._turns.taken = int(state["taken"])
        self._rng.bit_generator.state = state["random_state"]
        self._recipes = list(state["recipes"])
        for name in _ARRAYS:
            if state[name].shape[:1] != self._rows.shape:
                raise ValueError(f"{name} is of another number of seeds")
            setattr(self, f"_{name}", state[name])


_ARRAYS = ("rows", "pictures", "largest", "tried", "last", "rewards", "used", "states")
