"""Thompson sampling with forgetting: chooses among arms by what each brought lately.

V. Raj and S. Kalyani, "Taming Non-stationary Bandits: A Bayesian Approach" (2017): the counts of a Beta posterior are
multiplied by a factor below 1 before new ones are added, so that what an arm brought long ago is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffgen.types import Int64Array

# Tries that a posterior speaks for at most. A generation is some hundred tries: without a limit the best arm would be
# told from the second best within a few generations, and get everything although arms run dry.
_MOST = 400.0
_LEAST_SHARE = 0.05  # of the tries that each arm gets, whatever it brought


class Bandit:
    """Knows how much reward each arm brought for how many tries.

    Args:
        arms: number of arms.
        decay: what is left of both in the next generation.
        even: choose all arms equally often, whatever they brought.
    """

    def __init__(self, arms: int, *, decay: float, even: bool = False) -> None:
        self._decay = decay
        self._even = even
        self.rewards: NDArray[np.float64] = np.zeros(arms)
        self.tries: NDArray[np.float64] = np.zeros(arms)

    def choose(self, count: int, arms: Sequence[int], rng: np.random.Generator) -> Int64Array:
        """int64 (count,): one of ``arms`` for each try, in random order."""
        of = np.asarray(arms, dtype=np.int64)
        if self._even or len(of) == 1:
            return rng.permutation(of[np.arange(count) % len(of)])
        tries = self.tries[of]
        weight = np.minimum(1.0, _MOST / np.maximum(tries, 1.0))
        rewards = self.rewards[of] * weight
        drawn = rng.beta(1 + rewards, 1 + np.maximum(tries * weight - rewards, 0.0), (count, len(of)))
        chosen = of[drawn.argmax(axis=1)]
        floor = rng.random(count) < _LEAST_SHARE * len(of)
        return np.where(floor, of[rng.integers(len(of), size=count)], chosen)

    def learn(self, arms: Int64Array, rewards: NDArray[np.float64]) -> None:
        """Take in what a generation brought: the arm of each try, and its reward from 0 to 1."""
        size = len(self.tries)
        self.rewards = self._decay * self.rewards + np.bincount(arms, rewards, minlength=size)
        self.tries = self._decay * self.tries + np.bincount(arms, minlength=size)

    def checkpoint(self) -> dict[str, Any]:
        """What it knows, as arrays."""
        return {"arm_rewards": self.rewards, "arm_tries": self.tries}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`checkpoint` gave."""
        self.rewards, self.tries = np.array(state["arm_rewards"]), np.array(state["arm_tries"])
