"""A source that restores pictures from nothing but noise, as a diffusion model draws them."""

from __future__ import annotations

import math

import torch

from diffgen.gan_training.networks import to_uint8
from diffgen.origins import Origins
from diffgen.sources.learned.denoising import Restoring, restored
from diffgen.sources.learned.equal_parts import in_equal_parts
from diffgen.sources.space import latent_space


class NoiseSource:
    """See :class:`diffgen.sources.base.Source`. Genes are the noise of every pixel.

    Args:
        denoiser: in eval mode, on ``device``.
        image_shape: (C, H, W).
        deviation: of the noise, for pixels in [-1, 1]; so large that it hides everything.
        steps: in which it is restored.
        device: where it computes.
    """

    def __init__(
        self,
        denoiser: Restoring,
        image_shape: tuple[int, int, int],
        *,
        deviation: float,
        steps: int,
        device: torch.device,
    ) -> None:
        self.image_shape = image_shape
        self.space = latent_space(math.prod(image_shape), "normal")
        self._denoiser, self._device = denoiser, device
        self._deviation, self._levels = deviation, denoiser.levels(deviation, steps)

    @torch.inference_mode()
    def draw(self, genes: torch.Tensor) -> torch.Tensor:
        """uint8 (N, C, H, W) for float32 (N, length); bit for bit a function of each row."""
        if len(genes) == 0:
            return torch.empty(0, *self.image_shape, dtype=torch.uint8, device=self._device)
        return in_equal_parts(self._drawn, genes.to(torch.float32))

    def _drawn(self, genes: torch.Tensor) -> torch.Tensor:
        noise = genes.to(self._device).reshape(len(genes), *self.image_shape)
        # an image of unit variance and noise of that deviation: what a diffusion model takes for nothing but noise
        return to_uint8(restored(self._denoiser, (1 + self._deviation**2) ** 0.5 * noise, self._levels))

    def origins(self, genes: torch.Tensor) -> Origins | None:
        """None: no real image goes into it."""
        return None
