"""Draws what a training step needs: real images, some of them transformed, and latent vectors."""

from __future__ import annotations

import torch

from diffgen.config import GanConfig
from diffgen.gan_training.augmentation import TRANSFORMATIONS, augment
from diffgen.gan_training.networks import to_unit


class Batches:
    """Draws rows at random; everything that is random comes from one generator of random numbers.

    Args:
        images: uint8 (N, C, H, W).
        labels: int64 (N,), or None for a GAN that is not conditional; they may have gaps, such as 3 and 7 alone.
        config: ``augment``, ``transformed``, ``batch_size`` and ``latent_dim`` are used.
        rng: on the CPU.
        device: where batches are wanted.

    Attributes:
        class_labels: int64 (classes,), ascending: the labels that there are; a conditional GAN knows each of them by
            its place here. Empty where the GAN is not conditional.
        classes: how many these are.
        images: how many there are, transformations included.
    """

    def __init__(
        self,
        images: torch.Tensor,
        labels: torch.Tensor | None,
        config: GanConfig,
        *,
        rng: torch.Generator,
        device: torch.device,
    ) -> None:
        self._config = config
        self._rng = rng
        self._device = device
        self._count = len(images)
        self._data = (augment(images, generator=rng) if config.augment else images).to(device)
        self.class_labels = torch.empty(0, dtype=torch.int64) if labels is None else labels.unique()
        self._classes = None if labels is None else torch.searchsorted(self.class_labels, labels).to(device)
        self.classes = len(self.class_labels)
        self.images = len(self._data)

    def draw(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Real images float32 (batch_size, C, H, W) in [-1, 1], and their classes int64 (batch_size,) or None."""
        size = self._config.batch_size
        rows = torch.randint(self._count, (size,), generator=self._rng)
        chosen = rows
        if self._config.augment:
            transformed = torch.rand(size, generator=self._rng) < self._config.transformed
            which = torch.randint(1, len(TRANSFORMATIONS) + 1, (size,), generator=self._rng)
            # the images of each transformation stand behind the originals, in their order
            chosen = rows + self._count * which * transformed
        real = to_unit(self._data[chosen.to(self._device)]).contiguous(memory_format=torch.channels_last)
        return real, None if self._classes is None else self._classes[rows.to(self._device)]

    def latents(self, count: int, rng: torch.Generator | None = None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Latent vectors from the prior, as the generator takes them, and the classes in them, int64 (count,) or None.

        Args:
            count: how many.
            rng: where random numbers come from, if not from the training's own.
        """
        rng = rng or self._rng
        values = torch.randn(count, self._config.latent_dim, generator=rng).to(self._device)
        if not self.classes:
            return values, None
        asked = torch.randint(self.classes, (count,), generator=rng).to(self._device)
        return self.with_class(values, asked), asked

    def with_class(self, values: torch.Tensor, labels: torch.Tensor | None) -> torch.Tensor:
        """Latent vectors float32 (N, latent_dim) with the class as one more value, where the GAN is conditional."""
        return values if labels is None else torch.cat([values, labels[:, None].to(values)], dim=1)
