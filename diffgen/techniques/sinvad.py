"""SINVAD: search in the latent space of an auto-encoder for pictures at the boundary between two classes.

S. Kang, R. Feldt, S. Yoo, "Deceiving Humans and Machines Alike: Search-based Test Input Generation for DNNs using
Variational Autoencoders". It has three searches (``search``), each from a real image that is encoded:

* ``boundary``: a genetic search (Figure 3) for the picture nearest to the seed that has another label, by Eq. 1.
* ``escape``: the same towards a target label, by Eq. 4; how often it gets there is the class-escape rate of RQ3. Here
  the target is drawn for each seed among the labels that the models give at all.
* ``climb``: hill climbing (Figure 2), one gene at a time.

Preset ``paper``, constant by constant (P: the paper, C: the published code; where they differ, the paper is followed
unless said otherwise):

* 50 individuals, 500 generations at most (C; P names neither), of which the 10 best are kept (P; C keeps 20).
* the first generation is the seed and N(0, 1) (P; C takes 0.7 of it).
* crossover at one point (P, C). P's two parents may be the same one; here they differ.
* mutation: N(0, 1) times a size that begins with 0.1, is multiplied by 0.7 when the best has not changed and is 0.1
  again when it has (P, C; P's line 19 leaves the size out). The best of the generation before is meant (P never renews
  it). Only genes that differ from the seed's are mutated: so C and P's own words ("mutations are only applied to those
  dimensions"); P's elementCompare is described the other way round.
* each gene becomes the seed's again with probability 0.5 (C; P: Binomial).
* the end: 500 generations, or a size below 0.001 (C).
* Eq. 1: infinite while the label is the seed's, else the distance |E(i) - E(i0)|. Its L1 norm is taken of the genes
  that a picture is drawn from (C), not of what the picture is encoded to (P), which a source may need many steps for.
* hill climbing: N(0, 1) is added to one gene after the other, and kept where the fitness is better. P's loop has no
  end; C goes through all genes 3 times.

What had to be adapted, since models are black boxes here, and two of them:

* P's hill climbing looks for a given surprise, a density of a model's inner activations, which a black box does not
  show. Instead it looks for a change of prediction: the fitness is the margin of the seed's label, the difference of
  two logits, and it ends below 0.
* ``target = "each"`` tests the models one by one, as published: a label is that of the model under test, and every seed
  is searched from once for each model. A picture that this model alone gives another label is a trigger; one that
  all give the same other label is none, though the search has reached what it is after.
* ``target = "disagreement"``: in Eq. 1, "the label has changed" becomes "the models do not agree", and in Eq. 4
  "they do not agree, and one of them says the target". Hill climbing looks for the place between the models: the
  smallest margin while all give the seed's label, else the largest one with its sign changed.
* P's seeds are any test images; here they are those to which all models give one label, which is the seed's label. No
  other labels are needed. A seed that is given another label as soon as it is encoded and drawn again is left out.
* classes among the genes of a source stay those of the seed.
* individuals that were kept are not asked about again, as P does; many seeds are searched from at once.

Preset ``default`` searches for disagreements, and fewer generations from each seed, so that a budget of a minute sees
more than a few of them.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from diffgen.config import SearchConfig
from diffgen.config.schema import setting, settings
from diffgen.parts import Needs
from diffgen.tasks.classification import labels_of
from diffgen.techniques.base import Preset, RealImages, TechniqueContext
from diffgen.techniques.latent import EVERY_MODEL, changed, margins, shortfall
from diffgen.techniques.latent.genetic import GeneticTechnique
from diffgen.types import Float32Array, Int64Array


@settings("search.sinvad")
class SinvadSettings:
    """Settings of SINVAD."""

    search: Literal["boundary", "escape", "climb"] = setting(
        "boundary",
        "boundary: the nearest picture with another label (Eq. 1); escape: with one target label (Eq. 4); climb: hill "
        "climbing to a change of prediction.",
    )
    target: Literal["disagreement", "each"] = setting(
        "disagreement", "What is searched for: that the models disagree, or that each of them fails, one by one."
    )
    population: int = setting(50, "Individuals of a generation.", ge=3, le=10**5)
    kept: int = setting(10, "The best of them, which are kept and bred from; never all of them.", ge=2, le=10**5)
    generations: int = setting(60, "Maximum number of generations from one seed.", ge=1, le=10**6)
    spread: float = setting(1.0, "Standard deviation of the first generation about its seed.", gt=0, le=100)
    step: float = setting(0.1, "Standard deviation of the first mutations.", gt=0, le=100)
    shrinking: float = setting(
        0.7, "Factor on the standard deviation of mutations when the best has not changed.", gt=0, lt=1
    )
    smallest_step: float = setting(0.001, "A search ends with mutations smaller than this.", gt=0, le=1)
    restored: float = setting(0.5, "Share of the genes of a child that become the seed's again.", ge=0, lt=1)
    passes: int = setting(3, "Hill climbing: how often it goes through all genes.", ge=1, le=10**6)


class Sinvad(GeneticTechnique):
    """See the module's text for the rules. Hill climbing is a genetic search that keeps one and makes one."""

    name = "sinvad"
    seed_requirement = "a real image to which all models give the same label"
    Settings = SinvadSettings
    presets: ClassVar = {
        "default": Preset(source="vae"),
        "paper": Preset(SearchConfig().with_technique(SinvadSettings(target="each", generations=500)), source="vae"),
    }

    def __init__(self, context: TechniqueContext) -> None:
        own: SinvadSettings = self.settings_in(context.config)
        self._climbs = own.search == "climb"
        each = own.target == "each"
        if self._climbs:
            super().__init__(context, population=2, kept=1, each=each, side_by_side=context.side_by_side)
        else:
            super().__init__(context, population=own.population, kept=own.kept, each=each)
        self._labels = np.unique(context.need_real().answers.labels)

    @classmethod
    def needs(cls, config: SearchConfig) -> Needs:
        return frozenset({"source", "encoder"})

    @classmethod
    def seeds(cls, real: RealImages) -> Int64Array:
        return real.all_alike()

    def target_of(self, expected: int) -> int:
        others = self._labels[self._labels != expected]
        return int(self._rng.choice(others)) if self.settings.search == "escape" and len(others) else -1

    def first_step(self, lane: int) -> float:
        return float(self.settings.step)

    def beginners(self, owner: Int64Array) -> Float32Array:
        seeds = self._lanes.seed[owner, : self._continuous]
        return seeds + self._noise(seeds.shape) * np.float32(self.settings.spread)

    def children(self, crossed: Float32Array, owner: Int64Array) -> Float32Array:
        seeds = self._lanes.seed[owner, : self._continuous]
        if self._climbs:
            made, place = crossed.copy(), (self._lanes.generation[owner] - 1) % self._continuous
            made[np.arange(len(made)), place] += self._noise(len(made))
            return made
        steps = self._lanes.step[owner, None].astype(np.float32)
        mutated = crossed + np.where(crossed != seeds, self._noise(crossed.shape) * steps, 0)
        restored = self._rng.random(crossed.shape) < self.settings.restored
        return np.where(restored, seeds, mutated).astype(np.float32)

    def _noise(self, shape: int | tuple[int, ...]) -> Float32Array:
        return self._rng.standard_normal(shape, dtype=np.float32)

    def after_seed(self, lane: int, value: float) -> None:
        if self._climbs:
            lanes = self._lanes
            lanes.kept[lane, 0], lanes.fitness[lane, 0], lanes.generation[lane] = lanes.seed[lane], value, 1

    def fitness(self, probabilities: Float32Array, genes: Float32Array, owner: Int64Array) -> NDArray[np.float64]:
        expected, aims = self._lanes.expected[owner], self._lanes.aim[owner]
        if self._climbs:
            return shortfall(margins(probabilities, expected), aims)
        labels, targets = labels_of(probabilities), self._lanes.target[owner]
        wanted = changed(labels, expected, aims)
        # of one model its label, of their disagreement what any of them says
        alone = labels[np.arange(len(labels)), np.maximum(aims, 0)][:, None]
        said = np.where((aims == EVERY_MODEL)[:, None], labels, alone)
        wanted &= (targets < 0) | (said == targets[:, None]).any(axis=1)
        return np.where(wanted, self.distances(genes, owner), np.inf)

    def next_step(self, lane: int, best: float) -> float:
        own = self.settings
        stuck = best == self._lanes.best[lane]
        return float(self._lanes.step[lane] * own.shrinking if stuck else own.step)

    def reached(self, lane: int) -> bool:
        value = self._lanes.fitness[lane, 0]
        return bool(value < 0 if self._climbs else np.isfinite(value))

    def is_over(self, lane: int) -> bool:
        own, lanes = self.settings, self._lanes
        if self._climbs:
            return self.reached(lane) or bool(lanes.generation[lane] > own.passes * self._continuous)
        return bool(lanes.generation[lane] >= own.generations or lanes.step[lane] < own.smallest_step)
