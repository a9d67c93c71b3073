"""An auto-encoder as a source: its codes are genes, and it finds those of an image."""

from __future__ import annotations

from typing import Protocol

import torch

from diffgen.gan_training.networks import to_uint8, to_unit
from diffgen.origins import Origins
from diffgen.sampling import random_rows
from diffgen.sources.learned.codes_space import Codes
from diffgen.sources.learned.equal_parts import in_equal_parts

_KNOWN = 2_000  # real images whose codes are kept


class Coder(Protocol):
    """A trained auto-encoder; both ways each row is for itself."""

    def genes(self, pixels: torch.Tensor) -> torch.Tensor:
        """float32 (N, length) for float32 (N, C, H, W) in [-1, 1]."""
        ...

    def pixels(self, genes: torch.Tensor) -> torch.Tensor:
        """float32 (N, C, H, W) for genes; in [-1, 1], or a little beyond."""
        ...


class CodesSource:
    """See :class:`diffgen.sources.base.EncodingSource`.

    Args:
        coder: trained, in eval mode, on ``device``.
        space: of its codes.
        image_shape: (C, H, W).
        device: where it computes.
    """

    def __init__(self, coder: Coder, space: Codes, image_shape: tuple[int, int, int], *, device: torch.device) -> None:
        self.space = space
        self.image_shape = image_shape
        self._coder = coder
        self._device = device

    @torch.inference_mode()
    def draw(self, genes: torch.Tensor) -> torch.Tensor:
        """uint8 (N, C, H, W) for float32 (N, length); bit for bit a function of each row."""
        if len(genes) == 0:
            return torch.empty(0, *self.image_shape, dtype=torch.uint8, device=self._device)
        return in_equal_parts(lambda part: to_uint8(self._coder.pixels(part)), genes.to(self._device, torch.float32))

    def encode(self, images: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """float32 (N, length) on the CPU for uint8 (N, C, H, W); the labels are not asked for."""
        if len(images) == 0:
            return torch.empty(0, self.space.length)
        return encoded(self._coder, images, self._device)

    def origins(self, genes: torch.Tensor) -> Origins | None:
        """None: no real image goes into it."""
        return None


@torch.inference_mode()
def encoded(coder: Coder, images: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Genes of images uint8 (N, C, H, W), N at least 1, float32 (N, length) on the CPU."""
    return in_equal_parts(lambda part: coder.genes(to_unit(part.to(device))).cpu(), images)


def known_codes(coder: Coder, images: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Codes of the images uint8 (N, C, H, W) that an auto-encoder was trained on; of many those of a random sample."""
    return encoded(coder, images[random_rows(len(images), _KNOWN)], device)
