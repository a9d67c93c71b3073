"""The trained GAN as a source of images and as a scorer of their realism."""

from __future__ import annotations

from pathlib import Path

import torch

from diffgen.gan_training import checkpoint
from diffgen.gan_training.header import class_labels
from diffgen.gan_training.networks import DcganDiscriminator, DcganGenerator, to_uint8, to_unit
from diffgen.origins import Origins
from diffgen.sources.base import Source
from diffgen.sources.space import latent_space
from diffgen.types import Scorer


class GanSource:
    """Generator half; see :class:`diffgen.sources.base.Source`.

    Args:
        network: latent vector -> image.
        device: where it computes.
        class_labels: the label that each class of a conditional one stands for; empty: its own number.
    """

    def __init__(self, network: DcganGenerator, *, device: torch.device, class_labels: tuple[int, ...] = ()) -> None:
        self._network = network.to(device).eval()
        self._device = device
        self.space = latent_space(network.latent_dim, "normal", network.classes, class_labels)
        self.image_shape = network.image_shape

    @torch.inference_mode()
    def draw(self, genes: torch.Tensor) -> torch.Tensor:
        """uint8 (N, C, H, W) for float32 (N, latent_dim), or (N, latent_dim + 1) when conditional."""
        return to_uint8(self._network(genes.to(self._device, torch.float32)))

    def origins(self, genes: torch.Tensor) -> Origins | None:
        """None: no real image goes into it."""
        return None


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


def load(path: Path, *, device: torch.device) -> tuple[Source, Scorer | None, checkpoint.GanCheckpoint]:
    """A source and, when the file has one, a scorer; the search and the filters know no more of a GAN than this.

    Raises:
        UserError: the checkpoint cannot be read.
    """
    stored = checkpoint.load(path, device=device)
    return (
        GanSource(stored.generator, device=device, class_labels=class_labels(stored.header)),
        DiscriminatorScorer(stored.discriminator, device=device),
        stored,
    )
