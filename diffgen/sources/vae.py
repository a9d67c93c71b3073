"""The family ``vae``: a variational auto-encoder of the data set, whose codes are the genes."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import nn

from diffgen.config import CompareConfig
from diffgen.config.schema import Maybe, setting, settings
from diffgen.data.split import DataSplit
from diffgen.gan_training.networks import to_unit
from diffgen.numerics import seeded
from diffgen.sources.base import FamilyContext, ImageSource
from diffgen.sources.learned.codes import Codes, CodesSource, known_codes
from diffgen.sources.learned.kept import LearnedFamily, Recipe, obtain, planned
from diffgen.sources.learned.networks import (
    DenseDecoder,
    DenseEncoder,
    SpatialDecoder,
    SpatialEncoder,
    map_sides,
)
from diffgen.sources.learned.training import OneNetwork

_HIDDEN = 1_024  # values of the hidden layer of dense networks; SINVAD has 1,600
_WIDTH = 128  # channels of the widest map of spatial ones
_LEARNING_RATE = 1e-3
_LOG_VARIANCE = (-14.0, 4.0)  # beyond nothing is to be gained, and the exponential grows fast
_LEAST_ERROR = 1e-6  # so that the logarithm of the error of a plain batch stays finite
_MOST_GRADIENT = 1e4  # norm; a loss in nats per image has large gradients, only what is far beyond them is cut


class VariationalCoder(nn.Module):
    """See :class:`diffgen.sources.learned.codes.Coder`. Genes are the means of the codes.

    Args:
        image_shape: (C, H, W).
        size: values of a code, or of one cell of it.

    Attributes:
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


class VariationalLesson(OneNetwork[VariationalCoder]):
    """See :class:`diffgen.sources.learned.training.Lesson`."""

    def __init__(self, coder: VariationalCoder, *, device: torch.device) -> None:
        super().__init__("coder", coder, rate=_LEARNING_RATE, most_gradient=_MOST_GRADIENT, device=device)

    def update(self, images: torch.Tensor, rng: torch.Generator) -> dict[str, torch.Tensor]:
        """One step up the evidence lower bound; losses are in nats per image."""
        pixels = to_unit(images)
        with self.autocast():
            mean, log_variance = self.network.distribution(pixels)
            noise = torch.randn(mean.shape, generator=rng).to(self.device)
            values = self.network.drawn(mean + noise * (log_variance / 2).exp())
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum() / len(images)
        likelihood = self._unlikelihood(values, pixels)
        loss = likelihood + divergence
        self.descend(loss)
        return {"loss": loss.detach(), "divergence": divergence.detach()}

    def _unlikelihood(self, values: torch.Tensor, pixels: torch.Tensor) -> torch.Tensor:
        """Negative logarithm of the pixels' likelihood in nats per image, but for a constant."""
        count = pixels[0].numel()
        if self.network.spatial:
            return count / 2 * torch.log((values - pixels).square().mean() + _LEAST_ERROR)
        target = (pixels + 1) / 2
        return F.binary_cross_entropy_with_logits(values, target, reduction="sum") / len(pixels)

    def error(self, images: torch.Tensor) -> float:
        """Mean square of the difference in [-1, 1] between images and what is drawn from their mean codes."""
        pixels = to_unit(images.to(self.device))
        with self.autocast():
            drawn = self.network.pixels(self.network.genes(pixels))
        return float((drawn.float().clamp(-1, 1) - pixels).square().mean())


FORMAT = "diffgen-vae-source-1"
_BATCH = {True: 64, False: 128}  # of spatial and of dense networks
_STEPS = {True: 1_500, False: 2_500}
_CELL = 16  # values of each cell of a spatial code


@settings("source.vae")
class VaeSettings:
    """Settings of the family ``vae``."""

    codes: Literal["auto", "dense", "spatial"] = setting(
        "auto",
        "What the code of an image is: dense, one vector; spatial, a map of at most 8x8 cells; auto: dense for grey "
        "images, spatial for colour.",
    )
    latent_dim: int = setting(64, "Values of a dense code; 400 in SINVAD.", ge=1, le=4096)
    steps: Maybe[int] = setting(
        None,
        "Updates of its training (default: 1,500 for spatial codes, 2,500 for dense ones, fewer for few images).",
        ge=1,
        le=10**7,
    )

    def spatial(self, image_shape: tuple[int, int, int]) -> bool:
        """Whether the codes of images of (C, H, W) are a map."""
        return self.codes == "spatial" or (self.codes == "auto" and image_shape[0] > 1)


class VaeFamily(LearnedFamily):
    """The auto-encoder's codes are the genes."""

    name = "vae"
    Settings = VaeSettings

    def prepare(self, split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
        own: VaeSettings = self.settings(config)
        shape, device = split.data.image_shape, context.device
        self.supports(shape)
        spatial = own.spatial(shape)
        size = _CELL if spatial else own.latent_dim
        with seeded(0):
            coder = VariationalCoder(shape, spatial=spatial, size=size).to(device)
        decisive = {"spatial": spatial, "size": size}
        plan = planned("the auto-encoder", split, own.steps, _BATCH[spatial], _STEPS[spatial])
        kept = obtain(
            Recipe(FORMAT, decisive, plan),
            split,
            context,
            {"coder": coder},
            lambda: VariationalLesson(coder, device=device),
            lambda: {"known.genes": known_codes(coder, split.reference, device)},
        )
        space = Codes.among(kept.tensors["known.genes"].numpy(), normal=not spatial)
        shape_of_code = "x".join(map(str, coder.map)) + " values"
        facts = {
            "kind": f"variational auto-encoder, {'spatial' if spatial else 'dense'} codes",
            "latent vector": f"{shape_of_code}, " + ("drawn between those of real images" if spatial else "normal"),
            **kept.facts(split),
        }
        return ImageSource(CodesSource(coder, space, shape, device=device), artifact=kept.path, facts=facts)
