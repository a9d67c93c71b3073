"""GIFTbench: a genetic walk through a latent space from a seed until a model fails.

M. Maryam, M. Biagiola, A. Stocco, V. Riccio, "Benchmarking Generative AI Models for Deep Learning Test Input
Generation", ICST 2025, and the tool GIFTbench by the same authors. It compares what the latent spaces of
a VAE, a GAN and a diffusion model are good for (``--source vae``, ``gan``, ``denoiser``), with low and with high
``steps``.

Preset ``paper``, constant by constant (P: the papers, C: the published code; where they differ, the paper is followed
unless said otherwise):

* 25 individuals, of which 10 are kept, 250 generations at most (P, C).
* fitness: logit of the expected label less the highest other one; the search ends below 0 (P, C).
* the first generation is the seed and N(0, 1) times twice the step (C).
* step: the range of the latent values (the highest less the lowest of 1,000 random vectors) / 10,000 for low steps, /
  1,000 for high ones (P, C).
* crossover at one point of two of those that were kept (P, C; with C's GAN it copies one of them, since the genes lie
  along another axis there).
* mutation: N(0, 1) times as much as in the first generation, of the genes that differ from the seed's; twice as much
  as before when the best has not changed, and as much as in the first generation again when it has (C; there it is not
  set back between seeds, which is). Here it doubles up to 10^30, far beyond the range: a hundred doublings are more
  than numbers of 32 bits hold.
* genes are cut to the range (P, C).

What had to be adapted, since models are black boxes here, and two of them:

* differences of logits are those of log-probabilities.
* ``target = "each"`` tests the models one by one, as published: every seed is searched from once for each of them.
* ``target = "disagreement"``: the fitness is the smallest margin while all models give the expected label, and where
  all have lost it, their largest margin with its sign changed. It is below 0 where one of them gives the expected label
  and another does not.
* seeds are labelled real images that all models get right, encoded. P does so for the VAE; for the GAN it draws random
  vectors of a class, and for the diffusion model it describes the image in words. A seed that is not given its label
  any more when it is encoded and drawn again is left out (P: "viable seeds"); both are counted.
* where the genes of a seed lie outside of the range, it reaches as far as they do.
* classes among the genes of a source stay those of the seed. Individuals that were kept are not asked about again, and
  many seeds are searched from at once.

Preset ``default`` searches for disagreements, by high steps and at most 60 generations from a seed.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from diffgen.config import SearchConfig
from diffgen.config.schema import setting, settings
from diffgen.parts import Needs
from diffgen.sources.draws import NumpyDraws
from diffgen.techniques.base import Preset, RealImages, TechniqueContext
from diffgen.techniques.latent import margins, shortfall
from diffgen.techniques.latent.genetic import GeneticTechnique
from diffgen.types import Float32Array, Int64Array

STEPS = {"low": 1e-4, "high": 1e-3}  # of the range
BEGINNING = 2.0  # steps of the first generation
_SAMPLES = 1_000  # that the range is that of
_LARGEST_STEP = 1e30  # an infinite one times a noise of 0 is no number


@settings("search.giftbench")
class GiftbenchSettings:
    """Settings of GIFTbench."""

    steps: Literal["low", "high"] = setting(
        "high", "Size of its steps: a ten-thousandth (low) or a thousandth (high) of the range of the latent values."
    )
    target: Literal["disagreement", "each"] = setting(
        "disagreement", "What is searched for: that the models disagree, or that each of them fails, one by one."
    )
    population: int = setting(25, "Individuals of a generation.", ge=3, le=10**5)
    kept: int = setting(10, "The best of them, which are kept and bred from; never all of them.", ge=2, le=10**5)
    generations: int = setting(60, "Maximum number of generations from one seed.", ge=1, le=10**6)


class Giftbench(GeneticTechnique):
    """See the module's text for the rules."""

    name = "giftbench"
    seed_requirement = "a labelled real image that all models get right"
    Settings = GiftbenchSettings
    presets: ClassVar = {
        "default": Preset(source="vae"),
        "paper": Preset(SearchConfig().with_technique(GiftbenchSettings(target="each", generations=250)), source="vae"),
    }

    def __init__(self, context: TechniqueContext) -> None:
        own: GiftbenchSettings = self.settings_in(context.config)
        super().__init__(context, population=own.population, kept=own.kept, each=own.target == "each")
        draws = NumpyDraws(np.random.default_rng([context.seed, 2]))
        values = self._space.sample(_SAMPLES, draws)[:, : self._continuous]
        self._low, self._high = np.float32(values.min()), np.float32(values.max())
        self._step = float(self._high - self._low) * STEPS[own.steps]

    @classmethod
    def needs(cls, config: SearchConfig) -> Needs:
        return frozenset({"source", "encoder", "labels"})

    @classmethod
    def seeds(cls, real: RealImages) -> Int64Array:
        return real.all_right()

    def first_step(self, lane: int) -> float:
        return BEGINNING * self._step

    def beginners(self, owner: Int64Array) -> Float32Array:
        return self._cut(self._walked(self._lanes.seed[owner, : self._continuous], owner), owner)

    def children(self, crossed: Float32Array, owner: Int64Array) -> Float32Array:
        seeds = self._lanes.seed[owner, : self._continuous]
        return self._cut(np.where(crossed != seeds, self._walked(crossed, owner), crossed), owner)

    def _walked(self, genes: Float32Array, owner: Int64Array) -> Float32Array:
        """One random step of each gene."""
        noise = self._rng.standard_normal(genes.shape, dtype=np.float32)
        return genes + noise * self._lanes.step[owner, None].astype(np.float32)

    def _cut(self, genes: Float32Array, owner: Int64Array) -> Float32Array:
        """Genes within the range, which reaches as far as those of the seed."""
        seeds = self._lanes.seed[owner, : self._continuous]
        low, high = (each(seeds, axis=1, keepdims=True) for each in (np.min, np.max))
        return np.clip(genes, np.minimum(low, self._low), np.maximum(high, self._high)).astype(np.float32)

    def fitness(self, probabilities: Float32Array, genes: Float32Array, owner: Int64Array) -> NDArray[np.float64]:
        return shortfall(margins(probabilities, self._lanes.expected[owner]), self._lanes.aim[owner])

    def next_step(self, lane: int, best: float) -> float:
        stuck = best == self._lanes.best[lane]
        return min(float(2 * self._lanes.step[lane]), _LARGEST_STEP) if stuck else BEGINNING * self._step

    def reached(self, lane: int) -> bool:
        return bool(self._lanes.fitness[lane, 0] < 0)

    def is_over(self, lane: int) -> bool:
        return self.reached(lane) or bool(self._lanes.generation[lane] >= self.settings.generations)
