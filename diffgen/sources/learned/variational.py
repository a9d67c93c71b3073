"""A variational auto-encoder (Kingma and Welling 2014) as a source of images, and how it is trained.

Of grey images its code is one vector, as in SINVAD (Kang et al. 2020): pixels are probabilities. Of colour images it is
a map of at most 8x8 cells, for what flat codes draw is not recognised; pixels are normal with a common deviation, which
is the best one for the batch (Rybkin et al. 2021, "sigma-VAE"), so that nobody has to weigh detail against divergence.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from diffgen.gan_training.half_precision import autocast, has_bfloat16
from diffgen.gan_training.networks import to_unit
from diffgen.sources.learned.networks import (
    DenseDecoder,
    DenseEncoder,
    SpatialDecoder,
    SpatialEncoder,
    map_sides,
)

_HIDDEN = 1_024  # values of the hidden layer of dense networks; SINVAD has 1,600
_WIDTH = 128  # channels of the widest map of spatial ones
_LEARNING_RATE = 1e-3
_LOG_VARIANCE = (-14.0, 4.0)  # beyond nothing is to be gained, and the exponential grows fast
_LEAST_ERROR = 1e-6  # so that the logarithm of the error of a plain batch stays finite
_MOST_GRADIENT = 1e4  # norm; a loss in nats per image has large gradients, only what is far beyond them is cut


class VariationalCoder(nn.Module):
    """See :class:`diffgen.sources.learned.codes_source.Coder`. Genes are the means of the codes.

    Args:
        image_shape: (C, H, W).
        spatial: whether the code is a map.
        size: values of a code, or of one cell of it.

    Attributes:
        spatial: as given.
        map: shape of a code, (size,) or (size, h, w).
    """

    def __init__(self, image_shape: tuple[int, int, int], *, spatial: bool, size: int) -> None:
        super().__init__()
        self.spatial = spatial
        self.map = (size, *map_sides(image_shape)) if spatial else (size,)
        self.encoder: nn.Module
        self.decoder: nn.Module
        if spatial:
            self.encoder = SpatialEncoder(image_shape, width=_WIDTH, outputs=2 * size)
            self.decoder = SpatialDecoder(image_shape, width=_WIDTH, inputs=size)
        else:
            self.encoder = DenseEncoder(image_shape, hidden=_HIDDEN, outputs=2 * size)
            self.decoder = DenseDecoder(image_shape, hidden=_HIDDEN, inputs=size)

    def distribution(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and logarithm of the variance of the codes."""
        mean, log_variance = self.encoder(pixels).float().chunk(2, dim=1)
        return mean, log_variance.clamp(*_LOG_VARIANCE)

    def drawn(self, codes: torch.Tensor) -> torch.Tensor:
        """Pixels of codes, or, of dense ones, their log-odds."""
        values: torch.Tensor = self.decoder(codes).float()
        return values

    def genes(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.distribution(pixels)[0].flatten(1)

    def pixels(self, genes: torch.Tensor) -> torch.Tensor:
        values = self.drawn(genes.reshape(len(genes), *self.map))
        return values if self.spatial else values.sigmoid() * 2 - 1


class VariationalLesson:
    """See :class:`diffgen.sources.learned.training.Lesson`.

    Args:
        coder: to be trained, on ``device``.
        divergence: weight of the divergence from N(0, 1) in the evidence lower bound.
        device: where it is.
    """

    def __init__(self, coder: VariationalCoder, *, divergence: float, device: torch.device) -> None:
        # channels last: convolutions are quicker so
        self.coder = coder.to(memory_format=torch.channels_last)
        self.networks: dict[str, nn.Module] = {"coder": self.coder}
        self.optimisers = {"coder": torch.optim.Adam(coder.parameters(), lr=_LEARNING_RATE)}
        self._weight = divergence
        self._device = device
        self._half = has_bfloat16(device)

    def update(self, images: torch.Tensor, rng: torch.Generator) -> dict[str, torch.Tensor]:
        """One step up the evidence lower bound; losses are in nats per image."""
        pixels = to_unit(images)
        with autocast(self._device, enabled=self._half):
            mean, log_variance = self.coder.distribution(pixels)
            noise = torch.randn(mean.shape, generator=rng).to(self._device)
            values = self.coder.drawn(mean + noise * (log_variance / 2).exp())
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum() / len(images)
        likelihood = self._unlikelihood(values, pixels)
        loss = likelihood + self._weight * divergence
        optimiser = self.optimisers["coder"]
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.coder.parameters(), _MOST_GRADIENT)
        optimiser.step()
        return {"loss": loss.detach(), "divergence": divergence.detach()}

    def _unlikelihood(self, values: torch.Tensor, pixels: torch.Tensor) -> torch.Tensor:
        """Negative logarithm of the pixels' likelihood in nats per image, but for a constant."""
        count = pixels[0].numel()
        if self.coder.spatial:
            return count / 2 * torch.log((values - pixels).square().mean() + _LEAST_ERROR)
        target = (pixels + 1) / 2
        return F.binary_cross_entropy_with_logits(values, target, reduction="sum") / len(pixels)

    def error(self, images: torch.Tensor) -> float:
        """Mean square of the difference in [-1, 1] between images and what is drawn from their mean codes."""
        pixels = to_unit(images.to(self._device))
        with autocast(self._device, enabled=self._half):
            drawn = self.coder.pixels(self.coder.genes(pixels))
        return float((drawn.float().clamp(-1, 1) - pixels).square().mean())
