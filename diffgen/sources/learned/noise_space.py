"""The genes of a real image with noise: the noise, and the row of the image."""

from __future__ import annotations

import numpy as np

from diffgen.sources.draws import Draws
from diffgen.sources.layout import LatentLayout
from diffgen.sources.learned.codes_space import NORMAL_BOUND, Codes
from diffgen.sources.space import Genes, Mutating, WithCategories
from diffgen.types import Int64Array

_OTHER_SEED = 0.5  # share of what is mutated that gets another seed


class SeedsAndNoise(WithCategories):
    """Noise from N(0, 1), then the row of the seed.

    Args:
        continuous: values of the noise.
        rows: number of seeds.
    """

    real = True

    def __init__(self, continuous: int, rows: int) -> None:
        super().__init__(Codes(np.full(continuous, -NORMAL_BOUND), np.full(continuous, NORMAL_BOUND), None), (rows,))

    def sample(self, count: int, draws: Draws) -> Genes:
        """(count, length): random genes."""
        values = self.inner.sample(count, draws)
        return np.column_stack([values, draws.categories(count, self.categories[0]).astype(values.dtype)])

    def mutate(self, genes: Genes, how: Mutating, rng: np.random.Generator) -> Genes:
        """As for any categories; but half of all get another seed: other noise on the same is mostly much the same."""
        mutated = super().mutate(genes, how, rng)
        changed = np.flatnonzero(rng.random(len(genes)) < _OTHER_SEED)
        mutated[changed, -1] = rng.integers(self.categories[0], size=len(changed))
        return mutated

    def seeds_of(self, genes: Genes) -> Int64Array:
        return np.rint(genes[:, -1]).astype(np.int64)

    def layout(self) -> LatentLayout:
        return LatentLayout(self.continuous, 0, "denoiser")
