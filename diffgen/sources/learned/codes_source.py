"""An auto-encoder as a source: its codes are genes, and it finds those of an image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
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


@dataclass(frozen=True)
class KnownCodes:
    """Codes of real images that an auto-encoder was trained on.

    Attributes:
        genes: float32 (N, length), of some.
        low, high: float32 (length,), least and largest of each gene.
    """

    genes: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor

    @classmethod
    def of(cls, coder: Coder, images: torch.Tensor, device: torch.device) -> KnownCodes:
        """Those of images uint8 (N, C, H, W), of many a random sample."""
        some = images[random_rows(len(images), _KNOWN)]
        genes = encoded(coder, some, device)
        return cls(genes, genes.amin(dim=0), genes.amax(dim=0))

    def as_tensors(self) -> dict[str, torch.Tensor]:
        """By name, to be stored."""
        return {"known.genes": self.genes, "known.low": self.low, "known.high": self.high}

    @classmethod
    def read(cls, tensors: Mapping[str, torch.Tensor]) -> KnownCodes:
        """What :meth:`as_tensors` gave.

        Raises:
            KeyError: it is not there.
        """
        return cls(tensors["known.genes"], tensors["known.low"], tensors["known.high"])

    def space(self, *, normal: bool) -> Codes:
        """The space of such codes; ``normal`` says that they follow N(0, 1)."""
        if normal:
            return Codes(
                np.minimum(self.low.numpy(), -_NORMAL_BOUND), np.maximum(self.high.numpy(), _NORMAL_BOUND), None
            )
        return Codes(self.low.numpy(), self.high.numpy(), self.genes.numpy())


_NORMAL_BOUND = 4.0  # of 15,000 values of N(0, 1) one lies beyond


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
