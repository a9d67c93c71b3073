"""The trained GAN as a generator of images and as a scorer of their realism."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

from diffgen.gan_training import checkpoint
from diffgen.gan_training.networks import DcganDiscriminator, DcganGenerator, to_uint8, to_unit
from diffgen.types import Generator, Scorer


class GanGenerator:
    """Generator half; see :class:`diffgen.types.Generator`."""

    def __init__(self, network: DcganGenerator, *, device: torch.device) -> None:
        self._network = network.to(device).eval()
        self._device = device
        self.latent_dim = network.latent_dim
        self.classes = network.classes
        self.prior: Literal["normal", "uniform"] = "normal"
        self.image_shape = network.image_shape

    @torch.inference_mode()
    def generate(self, latents: torch.Tensor) -> torch.Tensor:
        """uint8 (N, C, H, W) for float32 (N, latent_dim), or (N, latent_dim + 1) when conditional."""
        return to_uint8(self._network(latents.to(self._device, torch.float32)))


class DiscriminatorScorer:
    """Discriminator half; see :class:`diffgen.types.Scorer`. Scores are the raw hinge scores.

    That of a conditional discriminator is its score for the class that suits the image best.
    """

    def __init__(self, network: DcganDiscriminator, *, device: torch.device) -> None:
        self._network = network.to(device).eval()
        self._device = device

    @torch.inference_mode()
    def score(self, images: torch.Tensor) -> torch.Tensor:
        """float32 (N,) for uint8 (N, C, H, W)."""
        scores: torch.Tensor = self._network(to_unit(images.to(self._device)))
        return scores


def load(path: Path, *, device: torch.device) -> tuple[Generator, Scorer | None, checkpoint.GanCheckpoint]:
    """A generator and, when the file has one, a scorer; the search and the filters know no more of a GAN than this.

    Raises:
        UserError: the checkpoint cannot be read.
    """
    stored = checkpoint.load(path, device=device)
    return (
        GanGenerator(stored.generator, device=device),
        DiscriminatorScorer(stored.discriminator, device=device),
        stored,
    )
