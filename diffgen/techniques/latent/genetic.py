"""Genetic searches from many seeds at once, each as if it were alone: what SINVAD and GIFTbench share.

A search keeps its best individuals and makes the rest of the next generation of them. All searches of a round are asked
about together; individuals that were kept are not asked about again, since their answers are known.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffgen.origins import Origins, Step
from diffgen.tasks.classification import labels_of
from diffgen.techniques.base import Checkpoint, TechniqueContext
from diffgen.techniques.latent.aims import EVERY_MODEL, still_named
from diffgen.techniques.latent.encoded import EncodedImages
from diffgen.techniques.latent.rounds import LatentTechnique, Round
from diffgen.types import Float32Array, Int64Array

_OUTCOMES = ("number", "row", "aim", "expected", "target", "viable", "reached", "generations", "queries", "distance")


def one_point(first: NDArray[Any], second: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Children of pairs of parents: up to a place, drawn for each pair, the first one's genes, then the second's.

    Args:
        first, second: (n, G).
        rng: draws the places, 1 to G - 1, so that both parents have a part where G is 2 or more.
    """
    count, length = first.shape
    places = rng.integers(1, max(2, length), count)
    return np.where(np.arange(length) < places[:, None], first, second)


@dataclass
class Lanes:
    """L searches side by side, each from one seed; one row of every array for each.

    Attributes:
        number: int64, its number among all searches, in the order in which they were begun.
        row: int64, row of the real image that it begins with.
        aim: int64, the model whose failure it is after, or ``EVERY_MODEL``.
        expected: int64, the label of the seed.
        target: int64, the label that it is after, or -1: any other.
        asked: int64, queries so far.
        generation: int64, generations that were evaluated; -1: the seed itself was not asked about yet.
        step: float64, size of the next mutations.
        best: float64, fitness of the best individual of the generation before; less is better.
        seed: float32 (L, G), genes of the seed.
        kept: float32 (L, K, G), the individuals that were kept, the best first.
        fitness: float64 (L, K), theirs; infinite where there is none.
    """

    number: Int64Array
    row: Int64Array
    aim: Int64Array
    expected: Int64Array
    target: Int64Array
    asked: Int64Array
    generation: Int64Array
    step: NDArray[np.float64]
    best: NDArray[np.float64]
    seed: Float32Array
    kept: Float32Array
    fitness: NDArray[np.float64]

    @classmethod
    def empty(cls, count: int, *, kept: int, length: int) -> Lanes:
        """For so many searches."""
        return cls(
            number=np.zeros(count, dtype=np.int64),
            row=np.zeros(count, dtype=np.int64),
            aim=np.zeros(count, dtype=np.int64),
            expected=np.zeros(count, dtype=np.int64),
            target=np.zeros(count, dtype=np.int64),
            asked=np.zeros(count, dtype=np.int64),
            generation=np.zeros(count, dtype=np.int64),
            step=np.zeros(count),
            best=np.full(count, np.inf),
            seed=np.zeros((count, length), dtype=np.float32),
            kept=np.zeros((count, kept, length), dtype=np.float32),
            fitness=np.full((count, kept), np.inf),
        )


class GeneticTechnique(LatentTechnique):
    """Searches from seeds in an order that is drawn once, pass after pass.

    Where single models are tested (``target = "each"``), each seed is searched from once for every model, one after
    the other.

    Args:
        context: see :class:`diffgen.techniques.Technique`.
        kept: the best of them, which are kept.
        each: whether single models are tested; False: whether they differ.
        side_by_side: searches at once, where there are as many; None: as many as a batch has room for.
    """

    def __init__(
        self, context: TechniqueContext, *, population: int, kept: int, each: bool, side_by_side: int | None = None
    ) -> None:
        super().__init__(context)
        real = context.need_real()
        self._space = context.need_source().space
        self._continuous = self._space.continuous
        self._population, self._kept_count = population, min(kept, population - 1)
        self._models = real.answers.probabilities.shape[1]
        self._each = each
        self._order = np.random.default_rng([context.seed, 1]).permutation(self.seeds(real))
        self._encoded = EncodedImages(context, self._order)
        room = context.batch_size // population if side_by_side is None else side_by_side
        count = max(1, min(room, len(self._order) * (self._models if each else 1)))
        self._taken = 0  # searches that were begun
        self._found: list[list[float]] = []  # searches that came to their end
        self._owner = np.empty(0, dtype=np.int64)  # of the present round: the search of each picture
        self._lanes = Lanes.empty(count, kept=self._kept_count, length=self._space.length)
        self._ready = False  # seeds are encoded when they are first needed, not before the search begins

    # -- what a method decides ---------------------------------------------------------------------------------------

    @abstractmethod
    def first_step(self, lane: int) -> float:
        """Size of mutations when a search begins."""

    @abstractmethod
    def beginners(self, owner: Int64Array) -> Float32Array:
        """(n, G): continuous genes of individuals of the first generation, in the searches of ``owner``, int64 (n,)."""

    @abstractmethod
    def children(self, crossed: Float32Array, owner: Int64Array) -> Float32Array:
        """(n, G): mutants of the continuous genes of crossed individuals, in the searches of ``owner``, int64 (n,)."""

    @abstractmethod
    def fitness(self, probabilities: Float32Array, genes: Float32Array, owner: Int64Array) -> NDArray[np.float64]:
        """float64 (n,), less is better; see :class:`Lanes`.

        Args:
            probabilities: float32 (n, M, K), what the models say.
            genes: (n, L).
            owner: int64 (n,), the searches.
        """

    @abstractmethod
    def next_step(self, lane: int, best: float) -> float:
        """Size of the next mutations of a search whose best individual is now of the fitness ``best``."""

    @abstractmethod
    def is_over(self, lane: int) -> bool:
        """Whether a search has come to its end after a generation."""

    def after_seed(self, lane: int, value: float) -> None:
        """Begin with the seed, whose fitness is known now."""

    # -- rounds ------------------------------------------------------------------------------------------------------

    def _begin_lane(self, lane: int) -> None:
        """Put the next seed into a lane."""
        lanes = self._lanes
        models = self._models if self._each else 1
        lanes.number[lane] = self._taken
        number, model = divmod(self._taken, models)
        self._taken += 1
        row = self._order[number % len(self._order)]
        lanes.row[lane], lanes.aim[lane] = row, model if self._each else EVERY_MODEL
        lanes.expected[lane] = self.context.need_real().answers.labels[row, 0]
        lanes.target[lane] = self.target_of(int(lanes.expected[lane]))
        lanes.asked[lane], lanes.generation[lane] = 0, -1
        lanes.seed[lane] = self._encoded.genes(np.array([row]))[0]
        lanes.step[lane], lanes.best[lane] = self.first_step(lane), np.inf
        lanes.kept[lane], lanes.fitness[lane] = 0, np.inf

    def target_of(self, expected: int) -> int:
        """The label that a search is after, or -1: any other than the expected one."""
        return -1

    def begin(self) -> Round:
        lanes = self._lanes
        if not self._ready:
            for lane in range(len(lanes.row)):
                self._begin_lane(lane)
            self._ready = True
        stage = np.minimum(lanes.generation, 1)
        counts = np.choose(stage + 1, [1, self._population, self._population - self._kept_count])
        self._owner = owner = np.repeat(np.arange(len(counts)), counts)
        genes = lanes.seed[owner].copy()
        new, old = stage[owner] == 0, stage[owner] == 1
        if new.any():
            genes[new, : self._continuous] = self.beginners(owner[new])
        if old.any():
            genes[old, : self._continuous] = self._bred(owner[old])
        return Round(genes, Origins(lanes.row[owner], self._recipes(genes, owner)))

    def _bred(self, owner: Int64Array) -> Float32Array:
        """Children of two different individuals that were kept, in the searches of ``owner``."""
        lanes, kept = self._lanes, self._kept_count
        first = self._rng.integers(0, kept, len(owner))
        second = (first + self._rng.integers(1, kept, len(owner))) % kept if kept > 1 else first
        own = slice(0, self._continuous)
        crossed = one_point(lanes.kept[owner, first, own], lanes.kept[owner, second, own], self._rng)
        return self.children(crossed, owner)

    def _recipes(self, genes: Float32Array, owner: Int64Array) -> tuple[str, ...]:
        away = self.distances(genes, owner)
        return tuple(str(Step("latent_steps", (("distance", each),))) for each in away.tolist())

    def distances(self, genes: Float32Array, owner: Int64Array) -> NDArray[np.float64]:
        """float64 (n,): sum of the absolute differences from the genes of the seeds, classes aside."""
        own = slice(0, self._continuous)
        return np.abs(genes[:, own].astype(np.float64) - self._lanes.seed[owner, own]).sum(axis=1)

    def end(self, now: Round, probabilities: Float32Array) -> None:
        lanes, owner = self._lanes, self._owner
        values = self.fitness(probabilities, now.genes, owner)
        at_seed = lanes.generation[owner] < 0
        named = still_named(labels_of(probabilities), lanes.expected[owner], lanes.aim[owner])
        ends = np.append(np.flatnonzero(np.diff(owner)) + 1, len(owner))
        for lane, (first, last) in enumerate(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)):
            lanes.asked[lane] += last - first
            if at_seed[first]:
                lanes.generation[lane] = 0
                if named[first]:
                    self.after_seed(lane, float(values[first]))
                else:
                    self._close(lane, viable=False)
            else:
                self._select(lane, now.genes[first:last], values[first:last])
                if self.is_over(lane):
                    self._close(lane, viable=True)

    def _select(self, lane: int, genes: Float32Array, values: NDArray[np.float64]) -> None:
        """Keep the best of a generation; those that were kept before go before new ones that are as good."""
        lanes, pool = self._lanes, values
        if lanes.generation[lane] > 0:
            pool, genes = np.concatenate([lanes.fitness[lane], values]), np.concatenate([lanes.kept[lane], genes])
        best = np.argsort(pool, kind="stable")[: self._kept_count]
        lanes.kept[lane] = genes[best]
        lanes.fitness[lane] = pool[best]
        lanes.generation[lane] += 1
        lanes.step[lane] = self.next_step(lane, float(pool[best[0]]))
        lanes.best[lane] = pool[best[0]]

    def reached(self, lane: int) -> bool:
        """Whether a search has found what it is after."""
        return bool(np.isfinite(self._lanes.fitness[lane, 0]))

    def _close(self, lane: int, *, viable: bool) -> None:
        """Note how a search ended, and begin the next."""
        lanes = self._lanes
        reached = viable and self.reached(lane)
        distance = self.distances(lanes.kept[lane, :1], np.array([lane]))[0] if reached else 0.0
        whole = [int(each[lane]) for each in (lanes.number, lanes.row, lanes.aim, lanes.expected, lanes.target)]
        numbers = [int(viable), int(reached), max(0, int(lanes.generation[lane])), int(lanes.asked[lane])]
        self._found.append([*whole, *numbers, float(distance)])
        self._begin_lane(lane)

    # -- what is kept ------------------------------------------------------------------------------------------------

    def outcomes(self) -> Mapping[str, Any]:
        """Of every search that came to its end, in that order.

        ``number`` in the order of their beginnings (one that is missing has not ended), ``row`` of its seed, ``aim``
        (a model's number, -1: their disagreement), ``expected`` label, ``target`` label (-1: any other), ``viable``
        (whether the seed, encoded and drawn again, was still given its label), ``reached``, ``generations``,
        ``queries`` and ``distance`` of the best individual from the seed. Of several workers, each with numbers of its
        own, ``worker`` says whose search it was. And ``under_way``, int64 (1,) or one of each worker: how many searches
        have not ended whose seed was still given its label.
        """
        table = np.array(self._found, dtype=np.float64).reshape(-1, len(_OUTCOMES))
        kinds = dict.fromkeys(_OUTCOMES, np.int64) | {"distance": np.float64}
        ended = {name: table[:, place].astype(kinds[name]) for place, name in enumerate(_OUTCOMES)}
        return {**ended, "under_way": np.array([(self._ready * (self._lanes.generation >= 0)).sum()])}

    @classmethod
    def joined_outcomes(cls, parts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        # checkpoints of before do not say how many were under way
        parts = [{"under_way": np.zeros(1, dtype=np.int64), **each} for each in parts]
        workers = np.repeat(np.arange(len(parts), dtype=np.int64), [len(each["number"]) for each in parts])
        return {**super().joined_outcomes(parts), "worker": workers}

    @classmethod
    def remark(cls, outcomes: Mapping[str, Any]) -> str:
        if outcomes["viable"].any() or outcomes["under_way"].any() or not len(outcomes["viable"]):
            return ""
        count = len(np.unique(outcomes["row"]))
        return (
            f"The source spoils every seed: none of the {count:,} images that were encoded and drawn again kept its "
            "label, so that nothing was searched for; choose another --source, or train this one for more steps."
        )

    def checkpoint(self) -> Checkpoint:
        lanes = {f"lanes_{each.name}": getattr(self._lanes, each.name).copy() for each in fields(Lanes)}
        found = np.array(self._found, dtype=np.float64).reshape(-1, len(_OUTCOMES))
        return {**super().checkpoint(), **lanes, "taken": self._taken, "found": found, "ready": self._ready}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        for each in fields(Lanes):
            before, array = getattr(self._lanes, each.name), state[f"lanes_{each.name}"]
            if array.shape != before.shape:
                raise ValueError(f"lanes_{each.name} is of another number of searches")
            setattr(self._lanes, each.name, array.astype(before.dtype))
        self._taken, self._ready = int(state["taken"]), bool(state["ready"])
        self._found = state["found"].tolist()
