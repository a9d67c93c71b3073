"""DRfuzz: mutate what the old model gets right until the new one gets it wrong.

H. You et al., "Regression Fuzzing for Deep Learning Systems", ICSE 2023. A is the old model, B the new one.

Seeds are the labelled real images that both models get right. Again and again one entry of the corpus is drawn, one of
15 mutators is chosen by its success (:mod:`diffgen.techniques.mutation.choice`), and ``mutants`` (10) mutants are made
with random parameters.

* Fidelity: a mutant is asked about only if the discriminator takes it for at least as real as the real image that its
  line began with.
* A fault: A right, B wrong. Its type is (real image, what A says, what B says).
* Corpus: a mutant that both get right becomes an entry when B has moved towards some wrong class, compared with A, more
  than ever for this real image; not when it has moved back towards the right class by more than 0.15.
* Reward of a mutator: difference hits x fidelity hits / uses^2. A use is one draw of a seed. It is a fidelity hit when
  any mutant passes, a difference hit when for any of them 2/3 of B's loss of the right class since the seed and 1/3 of
  the gap between A and B is above 0.
* Choice of an entry: in proportion to exp(-a (g + s / 2)), a = ln(20) / 20, for generation g and s selections so far; 0
  after more than 10 selections, for ancestors of a fault that leaned towards the class of that fault, and for all
  entries of a real image whose faults are of enough types (:mod:`diffgen.techniques.mutation.corpus`): 9, or as many as
  there are wrong classes, where those are fewer. Of the 10 classes that the publication has, 9 are all wrong ones.

Different from the published code:

* as many seeds as a batch has room for are drawn at once (different ones), their mutants are scored by one call and
  asked about in one batch. Mutators are chosen one after the other, by the scores before the batch.
* every selection of a seed counts. There, only one that leads to a fault does, so that the end after 10 is hardly ever
  reached; and it gives the seed its weight back just when it was retired.
* seeds are drawn by shares that add up to 1. There they do not once little weight is left, and the program ends with an
  error. When nothing has any weight, all entries are taken up again.
* the discriminator sees pixels in the range that it was trained with. There the one of MNIST does not, and the one of
  CIFAR-10 was trained on real images and fakes of different ranges.
* results are rounded and cut to 0..255; there, noise wraps around to bright specks. Shear is about the middle of the
  picture (there about its upper edge, which pushes the lower part out of it), patches may lie at every place (there not
  in the last row and column), and mutators that change nothing are left out.
* everything random comes from one seed.

Every disagreement goes into the archive, as the DiffGAN paper changed DRfuzz for its comparison, also where A is wrong;
only faults steer. That labels stay right under a rotation by 50 degrees is believed, as published; nothing checks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.config import SearchConfig
from diffgen.config.schema import setting, settings
from diffgen.errors import RunError
from diffgen.origins import Origins, extended
from diffgen.parts import Needs
from diffgen.search.proposal import Answers, Proposal
from diffgen.techniques.base import Checkpoint, RealImages, Technique, TechniqueContext
from diffgen.techniques.mutation import FIRST, Mutator, choose, geometry, levels, mutate, neighbourhood
from diffgen.techniques.mutation.corpus import Corpus, drift
from diffgen.types import Float32Array, Int64Array, UInt8Array

_RECTANGLES = ((1, 2), (2, 1), (2, 2), (1, 3), (3, 1), (3, 3))
_BLURS = (
    *(neighbourhood.box(side) for side in (3, 4, 5)),
    *(neighbourhood.gaussian(side) for side in (3, 5, 7)),
    *(neighbourhood.median(side) for side in (3, 5)),
    neighbourhood.bilateral(7, 50, 50),
)
MUTATORS: dict[str, Mutator] = {
    "translation": geometry.translation(-3, 2),
    "scale": geometry.scale(0.7, 1.2),
    "shear": geometry.shear(0.6),
    "rotation": geometry.rotation(50),
    "contrast": levels.contrast(0.5, 1.5),
    "brightness": levels.brightness(20),
    "blur": neighbourhood.blur(_BLURS),
    "erosion": neighbourhood.erosion(_RECTANGLES),
    "dilation": neighbourhood.dilation(_RECTANGLES),
    "reversed patch": levels.patch("reverse"),
    "white patch": levels.patch("white"),
    "black patch": levels.patch("black"),
    "gaussian noise": levels.gaussian_noise([2, 1, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001]),
    "multiplicative noise": levels.multiplicative_noise([1, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001]),
    "salt and pepper": levels.salt_and_pepper(0.004),
}
MAX_TYPES = 9  # of faults of one real image, where there are as many wrong classes
MOVED_BACK = 0.15
_LOST = 2 / 3  # weight of B's loss since the seed in the difference; the rest is that of the gap between A and B
_STANDSTILL = 500  # batches without a single mutant that passes


def mutator_scores(difference: Int64Array, fidelity: Int64Array, used: Int64Array) -> NDArray[np.float64]:
    """(M,): difference hits x fidelity hits / uses^2; 0 for a mutator that was never used."""
    return np.asarray(difference * fidelity / np.maximum(used, 1) ** 2)


@dataclass(frozen=True)
class _Round:
    """The mutants of one round, made of S entries of the corpus.

    Attributes:
        entries, which: int64 (S,), the entries that were selected and the mutator of each.
        owner: int64 (n,), place in ``entries`` of what each mutant was made of.
        mutants: uint8 (n, C, H, W), those that the discriminator lets pass.
    """

    entries: Int64Array
    which: Int64Array
    owner: Int64Array
    mutants: UInt8Array
    origins: Origins


@settings("search.drfuzz")
class DrFuzzSettings:
    """Settings of DRfuzz."""

    fidelity: Literal["discriminator", "none"] = setting(
        "discriminator",
        "Which mutants are asked about: those that the discriminator takes for at least as real as the image that "
        "their line began with, or all (none), for which no discriminator is needed.",
    )
    mutants: int = setting(10, "Mutants made of one seed at a time, all by one mutator.", ge=1, le=10**6)


class DrFuzz(Technique):
    """One round is one batch of mutants; see the module's text for the rules."""

    name = "drfuzz"
    models = 2
    hints: ClassVar = {"discriminator": 'set fidelity = "none" under [search.drfuzz] in a --config file'}
    seed_requirement = "a labelled real image that both models get right"
    Settings = DrFuzzSettings

    def __init__(self, context: TechniqueContext) -> None:
        super().__init__(context)
        real = context.need_real()
        if real.labels is None:
            raise ValueError("DRfuzz needs the labels of the real images.")
        if "discriminator" in self.needs(context.config) and context.scorer is None:
            raise ValueError("DRfuzz needs a discriminator for its fidelity.")
        self._rows = self.seeds(real)
        self._labels = real.labels[self._rows]
        probabilities = real.answers[self._rows].dense()
        moved = drift(probabilities, self._labels)
        right = probabilities[np.arange(len(self._rows)), :, self._labels]
        self._corpus = Corpus(
            real.images[self._rows], drift=moved.argmax(axis=1), right_a=right[:, 0], right_b=right[:, 1]
        )
        self._furthest = moved  # of each real image and class
        self._types = np.zeros(moved.shape, dtype=np.bool_)  # faults found, by real image and what B says
        self._enough_types = min(MAX_TYPES, moved.shape[1] - 1)
        self._fidelity = np.full(len(self._rows), np.nan, dtype=np.float32)  # of each real image, once it was asked for
        self._difference_hits, self._fidelity_hits, self._used = np.zeros((3, len(MUTATORS)), dtype=np.int64)
        self._last = FIRST
        self._rng = np.random.default_rng([context.seed, 0])
        self._rounds = 0
        self._empty_rounds = 0
        self._round: _Round | None = None  # that is being asked about
        self._told: list[Answers] = []

    @classmethod
    def needs(cls, config: SearchConfig) -> Needs:
        labels: Needs = frozenset({"labels"})
        return labels | {"discriminator"} if cls.settings_in(config).fidelity == "discriminator" else labels

    @classmethod
    def seeds(cls, real: RealImages) -> Int64Array:
        return real.all_right()

    @property
    def between_generations(self) -> bool:
        return self._round is None

    def warm_up(self) -> None:
        for blur in _BLURS:
            blur(self.context.need_real().images[:1])

    def propose(self, room: int) -> Proposal:
        """The next mutants of the present round; none when the discriminator lets none of a new one pass.

        Raises:
            RunError: it has let none pass for many rounds.
        """
        self._round = now = self._round or self._mutate()
        first = sum(map(len, self._told))
        part = slice(first, first + room)
        images = torch.from_numpy(now.mutants[part]).to(self.context.device)
        return Proposal(images, generation=self._rounds + 1, origins=now.origins[part])

    def learn(self, proposal: Proposal, answers: Answers) -> None:
        """Take in the answers; with the last of a round, mutators are rewarded and the corpus grows."""
        assert self._round is not None
        self._told.append(answers)
        if sum(map(len, self._told)) < len(self._round.mutants):
            return
        if len(self._round.mutants):
            self._reward(self._round, Answers.joined(self._told).probabilities.cpu().numpy())
        self._rounds += 1
        self._forget()

    def _forget(self) -> None:
        """Drop the round that was begun, if any."""
        self._round, self._told = None, []

    def _mutate(self) -> _Round:
        """A new round: entries, a mutator for each, and those of their mutants that pass."""
        each = self.settings.mutants
        entries = self._corpus.select(max(1, self.context.side_by_side // each), self._rng)
        which = self._choose_mutators(len(entries))
        owner = np.repeat(np.arange(len(entries)), each)
        before = self._corpus.images(entries)[owner]
        mutated = mutate(before, which[owner], list(MUTATORS.values()), self._rng)
        mutants = mutated.images
        passed = np.flatnonzero((mutants != before).any(axis=(1, 2, 3)))
        passed = passed[self._faithful(mutants[passed], self._corpus.columns["root"][entries[owner[passed]]])]
        mutants, owner = mutants[passed], owner[passed]
        made_of = entries[owner]
        recipes = (
            extended(self._corpus.recipe(entry), mutated.steps[place])
            for entry, place in zip(made_of.tolist(), passed.tolist(), strict=True)
        )
        origins = Origins(self._rows[self._corpus.columns["root"][made_of]], tuple(recipes))
        np.add.at(self._used, which, 1)
        np.add.at(self._fidelity_hits, which[np.unique(owner)], 1)
        self._empty_rounds = 0 if len(mutants) else self._empty_rounds + 1
        if self._empty_rounds >= _STANDSTILL:
            raise RunError(
                f"The discriminator takes no mutant for as real as its seed ({_STANDSTILL} batches); train the GAN "
                'longer (--gan-schedule thorough), or set fidelity = "none" under [search.drfuzz] in a --config file.'
            )
        return _Round(entries, which, owner, mutants, origins)

    def _choose_mutators(self, count: int) -> Int64Array:
        scores = mutator_scores(self._difference_hits, self._fidelity_hits, self._used)[None]
        which = np.empty(count, dtype=np.int64)
        for place in range(count):
            which[place] = self._last = int(choose(scores, np.array([self._last]), self._rng)[0])
        return which

    def _faithful(self, mutants: UInt8Array, roots: Int64Array) -> NDArray[np.bool_]:
        """bool (n,): whether each mutant is at least as real as the real image that its line began with."""
        if self.settings.fidelity == "none" or len(mutants) == 0:
            return np.ones(len(mutants), dtype=np.bool_)
        unknown = np.unique(roots[np.isnan(self._fidelity[roots])])
        if len(unknown):
            self._fidelity[unknown] = self._realism(self._corpus.images(unknown))
        return np.asarray(self._realism(mutants) >= self._fidelity[roots])

    def _realism(self, images: UInt8Array) -> Float32Array:
        assert self.context.scorer is not None
        batches = torch.from_numpy(images).to(self.context.device).split(self.context.side_by_side)
        scores = [self.context.memory.call(self.context.scorer.score, batch).cpu() for batch in batches]
        return np.asarray(torch.cat(scores).numpy(), dtype=np.float32)

    def _reward(self, now: _Round, said: Float32Array) -> None:
        """Reward mutators, let the corpus grow, note faults.

        Args:
            said: float32 (n, 2, K), what the models say of its mutants.
        """
        mutants, entries, owner, which = now.mutants, now.entries, now.owner, now.which
        of, made_of = self._corpus.columns, entries[owner]
        roots = of["root"][made_of]
        labels, answers = self._labels[roots], said.argmax(axis=2)
        right = said[np.arange(len(said)), :, labels]
        gap = right[:, 0] - right[:, 1]
        gap_before = of["right_a"][made_of] - of["right_b"][made_of]
        moved = drift(said, labels)
        a_right, b_right = (answers == labels[:, None]).T
        fault = a_right & ~b_right
        moved_back = (gap < 0) & (gap_before != 0) & (gap_before - gap > MOVED_BACK)
        both = a_right & b_right & ~moved_back

        difference = _LOST * (of["right_b"][made_of] - right[:, 1]) + (1 - _LOST) * gap
        hits = np.unique(owner[(both | fault) & (difference > 0)])
        np.add.at(self._difference_hits, which[hits], 1)

        grown = both & (moved > self._furthest[roots]).any(axis=1)
        news = grown | fault
        np.maximum.at(self._furthest, roots[news], moved[news])
        if grown.any():
            self._corpus.add(
                mutants[grown],
                made_of[grown],
                now.origins[np.flatnonzero(grown)].recipes,
                drift=moved[grown].argmax(axis=1),
                right_a=right[grown, 0],
                right_b=right[grown, 1],
            )
        if fault.any():
            self._types[roots[fault], answers[fault, 1]] = True
            for entry, label in np.unique(np.column_stack([made_of, answers[:, 1]])[fault], axis=0).tolist():
                self._corpus.retire(entry, label)
            found = np.unique(roots[fault])
            self._corpus.banned[found] = self._types[found].sum(axis=1) >= self._enough_types

    def checkpoint(self) -> Checkpoint:
        return {
            "rounds": self._rounds,
            "empty_rounds": self._empty_rounds,
            "last": self._last,
            "random_state": self._rng.bit_generator.state,
            "furthest": self._furthest,
            "types": self._types,
            "fidelity": self._fidelity,
            "mutators": np.stack([self._difference_hits, self._fidelity_hits, self._used]),
            **self._corpus.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._forget()
        self._corpus.restore(state)
        self._rounds, self._empty_rounds = int(state["rounds"]), int(state["empty_rounds"])
        self._last = int(state["last"])
        self._rng.bit_generator.state = state["random_state"]
        self._furthest, self._types, self._fidelity = state["furthest"], state["types"], state["fidelity"]
        self._difference_hits, self._fidelity_hits, self._used = state["mutators"].copy()
