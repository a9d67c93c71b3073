"""An auto-encoder as a source: its codes are genes, and it finds those of an image."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch

from diffgen.gan_training.networks import to_uint8, to_unit
from diffgen.origins import Origins
from diffgen.sampling import random_rows
from diffgen.sources.draws import Draws
from diffgen.sources.learned.networks import in_equal_parts
from diffgen.sources.space import Box, Genes, LatentLayout

NORMAL_BOUND = 4.0  # of 15,000 values of N(0, 1) one lies beyond
_FARTHEST = 0.5  # share of the way to another image: from the middle on it would be the other one that is changed


class Codes(Box):
    """Continuous genes between the least and the largest that real images have.

    Args:
        low, high: float (length,), the bounds.
        known: float (N, length), codes of real images. Genes are drawn on the way from one of them towards another, at
            most half of it: codes that form a map are nothing like independent, and drawn one by one they are no
            picture. None: genes are drawn from N(0, 1), which such codes are trained to follow.
    """

    def __init__(self, low: Genes, high: Genes, known: Genes | None) -> None:
        super().__init__(len(low))
        self._low, self._high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        self._known = known

    @classmethod
    def among(cls, known: Genes, *, normal: bool) -> Codes:
        """The space of codes of which some are known, (N, length); ``normal`` says that they follow N(0, 1)."""
        low, high = known.min(axis=0), known.max(axis=0)
        if normal:
            return cls(np.minimum(low, -NORMAL_BOUND), np.maximum(high, NORMAL_BOUND), None)
        return cls(low, high, known)

    @property
    def low(self) -> Genes:
        return self._low

    @property
    def high(self) -> Genes:
        return self._high

    def sample(self, count: int, draws: Draws) -> Genes:
        """(count, length): random genes; see the class."""
        if self._known is None:
            return self.repair(draws.normal(count, self.continuous))
        size = len(self._known)
        start, end = (self._known[draws.categories(count, size).astype(np.int64)] for _ in range(2))
        share = draws.uniform(count, np.zeros(1), np.full(1, _FARTHEST))
        mixed = start + share * (end - start)
        return self.repair(mixed.astype(share.dtype, copy=False))

    def searched(self, prior: str, bound: float) -> Codes:
        """All of it: its bounds are those of the real images already."""
        return self

    def layout(self) -> LatentLayout:
        return LatentLayout(self.continuous, 0, "codes")


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
