"""Reconstruction error of an auto-encoder of real images as a filter (SelfOracle, Stocco et al. 2020)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from diffgen.config.schema import Maybe, setting, settings
from diffgen.features.shrinking import shrunk
from diffgen.features.vae import Vae
from diffgen.filters.base import Filter, FilterContext, threshold_setting

_INK = 1.0  # squared grey levels, summed over pixels; below it an image holds nothing that could be drawn again


@settings("filters.reconstruction")
class ReconstructionSettings:
    """The filter ``reconstruction``: how well an auto-encoder of real images draws an image again."""

    threshold: Maybe[float] = threshold_setting("reconstruction score")
    training_steps: int = setting(900, "Updates of the auto-encoder of the reconstruction filter.", ge=1, le=10**8)


class ReconstructionFilter(Filter):
    """Passes what a small variational auto-encoder of the real images can draw again.

    The score is minus the squared error, as a share of the image's own energy (the sum of its squared grey levels).
    SelfOracle takes the mean squared error itself; that passes whatever is faint or nearly empty, and rejects strong
    strokes.

    Args:
        network: gives the trained network for the real images that it is to be trained on.
        threshold: lowest score that passes, or NaN to have it calibrated.
    """

    name = "reconstruction"
    any_size = True
    needs = frozenset({"auto_encoder"})
    Settings = ReconstructionSettings

    @classmethod
    def make(cls, context: FilterContext) -> ReconstructionFilter:
        return cls(context.auto_encoder, threshold=context.threshold(cls), batch_size=context.batch_size)

    def __init__(
        self, network: Callable[[torch.Tensor], Vae], *, threshold: float = math.nan, batch_size: int = 256
    ) -> None:
        self._make = network
        self._network: Vae | None = None
        self._batch_size = batch_size
        self.threshold = threshold
        self.description = "How well a small auto-encoder of real images draws the image again."

    def fit(self, real: torch.Tensor) -> None:
        """Train the auto-encoder on real images, uint8 (N, C, H, W), or have it found."""
        self._network = self._make(real)
        self.description = (
            f"How well a small auto-encoder of {len(real)} real images (all but the held-out ones) draws the image "
            "again: minus the squared error, as a share of the image's own energy."
        )

    def score(self, images: torch.Tensor, *, enough: float = math.inf) -> torch.Tensor:
        """float32 (N,), at most 0, on the CPU, for uint8 (N, C, H, W)."""
        if self._network is None:
            raise RuntimeError("fit() the filter before it is asked")
        scores = []
        for batch in images.split(self._batch_size):
            drawn = self._network.reconstruct(batch)
            target = shrunk(batch.to(drawn.device)).to(torch.float32) / 255
            error = (target - drawn).square().flatten(1).sum(dim=1)
            energy = target.square().flatten(1).sum(dim=1)
            scores.append((-error / energy.clamp_min(_INK)).cpu())
        return torch.cat(scores)
