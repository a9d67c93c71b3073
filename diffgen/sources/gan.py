"""The trained GAN as a source of images and as a scorer of their realism."""

from __future__ import annotations

from pathlib import Path

import torch

from diffgen.gan_training import checkpoint
from diffgen.gan_training.header import class_labels
from diffgen.gan_training.networks import DcganDiscriminator, DcganGenerator, folded, to_uint8, to_unit
from diffgen.origins import Origins
from diffgen.sources.base import Source
from diffgen.sources.learned.inversion import Inversion, descended, inverted
from diffgen.sources.space import latent_space, random_genes
from diffgen.types import Scorer

_ON_CPU = 32  # pictures drawn at once
_ENCODING_STEPS, _ENCODING_RATE = 30, 0.1
_TRIED = 64  # random pictures of each class that descent may begin with


class GanSource:
    """Generator half; see :class:`diffgen.sources.base.Source`.

    Args:
        network: latent vector -> image; moved to ``device`` and put into eval mode.
        device: where it computes.
        class_labels: the label that each class of a conditional one stands for; empty: its own number.

    Attributes:
        network: in eval mode.
        encoder: finds genes of images, or None: descent does it from random ones.
    """

    encoder: Inversion | None = None

    def __init__(self, network: DcganGenerator, *, device: torch.device, class_labels: tuple[int, ...] = ()) -> None:
        self.network = network.to(device).eval()
        self._drawing = folded(self.network)
        self._device = device
        self._class_labels = class_labels
        self.space = latent_space(network.latent_dim, "normal", network.classes, class_labels)
        self.image_shape = network.image_shape

    @torch.inference_mode()
    def draw(self, genes: torch.Tensor) -> torch.Tensor:
        """uint8 (N, C, H, W) for float32 (N, latent_dim), or (N, latent_dim + 1) when conditional."""
        values = genes.to(self._device, torch.float32)
        # on a CPU larger feature maps leave the cache (docs/decisions/009)
        size = _ON_CPU if self._device.type == "cpu" else max(1, len(values))
        return torch.cat([to_uint8(self._drawing(part)) for part in values.split(size)])

    def encode(self, images: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Genes whose pictures come near to images: descent on the squared difference (Zhu et al. 2016, section 4).

        It begins with what the encoder finds, or without one with the nearest of some random pictures.

        Args:
            images: uint8 (N, C, H, W).
            labels: int64 (N,), the class that a conditional generator is asked for; None, or a label that none of its
                classes stands for: that of the encoder, or of the nearest random picture.

        Returns:
            float32 (N, space.length) on the CPU.
        """
        if len(images) == 0:
            return torch.empty(0, self.space.length)
        wanted = to_unit(images.to(self._device))
        classes = None if labels is None or not self.network.classes else self._classes_of(labels)
        if self.encoder is not None:
            return inverted(self.encoder, self.network, wanted, classes)
        genes = self._nearest_random(wanted, classes)
        return descended(self.network, genes, wanted, steps=_ENCODING_STEPS, rate=_ENCODING_RATE).cpu()

    def _classes_of(self, labels: torch.Tensor) -> torch.Tensor:
        """int64 (N,): the class that stands for each label, or -1: none does."""
        stands_for = torch.tensor(self._class_labels or tuple(range(self.network.classes)))
        same = labels.cpu()[:, None] == stands_for
        return torch.where(same.any(dim=1), same.int().argmax(dim=1), -1)

    @torch.no_grad()
    def _nearest_random(self, wanted: torch.Tensor, classes: torch.Tensor | None) -> torch.Tensor:
        """For each image float32 (N, C, H, W) the random genes whose picture is nearest, float32 (N, space.length)."""
        rng = torch.Generator().manual_seed(0)
        own = max(1, self.network.classes)
        genes = random_genes(self.space, _TRIED * own, rng).to(self._device)
        if self.network.classes:
            genes[:, -1] = torch.arange(own, device=self._device).repeat_interleave(_TRIED)
        far = torch.cdist(wanted.flatten(1), self.network(genes).flatten(1))
        if classes is not None:
            asked = classes.to(self._device)[:, None]
            far = far.masked_fill((asked >= 0) & (asked != genes[:, -1].long()), torch.inf)
        return genes[far.argmin(dim=1)].clone()

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
