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

import numpy as np

from diffgen.config.schema import setting, settings
from diffgen.origins import Step
from diffgen.techniques.populations import UNKNOWN, Populations
from diffgen.types import Float32Array, Int64Array, UInt8Array


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

    Each channel of a pixel is changed by its own amount; black cannot be made darker, nor white lighter.
    """
    drawn = rng.random((len(images), 1, *images.shape[2:]))
    # a picture without any change would be a question that was asked already
    here = (drawn < rate) | (drawn == drawn.min(axis=(1, 2, 3), keepdims=True))
    by = np.where(here, rng.integers(1, step + 1, images.shape) * rng.choice([-1, 1], images.shape), 0)
    made = np.clip(images + by, 0, 255)
    # all that was drawn is black made darker, or white made lighter
    same = (made == images).all(axis=(1, 2, 3), keepdims=True)
    return np.where(same, np.clip(images - by, 0, 255), made).astype(np.uint8)


def winners(fitness: Float32Array, children: int, rng: np.random.Generator) -> Int64Array:
    """int64 (children,): the fitter of two that are drawn at random, for float32 (m,); the first of two as fit."""
    drawn = rng.integers(0, len(fitness), (children, 2))
    return np.where(fitness[drawn[:, 1]] < fitness[drawn[:, 0]], drawn[:, 1], drawn[:, 0]).astype(np.int64)


class DiffChaser(Populations):
    """One round is one generation of every seed's population."""

    name = "diffchaser"
    Settings = DiffChaserSettings

    def begin(self, lane: int) -> None:
        """The first mutants of a seed."""
        copies = np.repeat(self._real.images[self._rows[lane]][None], self.settings.population, axis=0)
        self._pictures[lane] = changed(copies, self.settings.rate, self.settings.step, self._rng)

    def go_on(self, lane: int) -> None:
        """All but the fittest become children of two selected ones."""
        pictures, fitness = self._pictures[lane], self._fitness[lane]
        others = np.delete(np.arange(len(fitness)), fitness.argmin())
        one, other = (winners(fitness, len(others), self._rng) for _ in range(2))
        children = crossed(pictures[one], pictures[other], self._rng)
        pictures[others] = changed(children, self.settings.rate, self.settings.step, self._rng)
        fitness[others] = UNKNOWN

    def fitness_of(self, probabilities: Float32Array) -> Float32Array:
        return k_uncertainty(probabilities, self.settings.k)

    def steps(self, lane: int, place: int) -> tuple[Step, ...]:
        return (Step("evolved_pixels", (("rounds", float(self._rounds[lane] + 1)),)),)
