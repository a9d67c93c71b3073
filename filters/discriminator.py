"""The GAN's discriminator as a filter (DiffGAN, section 3.6.1)."""

from __future__ import annotations

import math

import torch

from diffgen.config.schema import Maybe, settings
from diffgen.filters.base import Filter, FilterContext, threshold_setting
from diffgen.types import Scorer


@settings("filters.discriminator")
class DiscriminatorSettings:
    """The filter ``discriminator``: the score of the network that was trained with the generator."""

    threshold: Maybe[float] = threshold_setting("discriminator score")


class DiscriminatorFilter(Filter):
    """Passes what a discriminator takes for real.

    The paper names no threshold, and its published code has no such filter.

    Args:
        scorer: any scorer of realism; usually the discriminator that was trained with the generator.
        threshold: lowest score that passes, or NaN to have it calibrated.
    """

    name = "discriminator"
    needs = frozenset({"discriminator"})
    Settings = DiscriminatorSettings
    description = "Score of the discriminator that was trained with the generator."

    @classmethod
    def make(cls, context: FilterContext) -> DiscriminatorFilter:
        assert context.scorer is not None
        return cls(context.scorer, threshold=context.threshold(cls), batch_size=context.batch_size)

    def __init__(self, scorer: Scorer, *, threshold: float = math.nan, batch_size: int = 256) -> None:
        self._scorer = scorer
        self._batch_size = batch_size
        self.threshold = threshold

    def fit(self, real: torch.Tensor) -> None:
        """Nothing to do: the discriminator was trained with the generator."""

    def score(self, images: torch.Tensor, *, enough: float = math.inf) -> torch.Tensor:
        """float32 (N,), on the CPU, for uint8 (N, C, H, W)."""
        scores = [self._scorer.score(batch).cpu() for batch in images.split(self._batch_size)]
        return torch.cat(scores)
