"""Structural similarity with the nearest real image as a filter (DiffGAN, section 3.6.2)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from diffgen.config.schema import Maybe, settings
from diffgen.features.nearest import Nearest
from diffgen.features.shrinking import shrunk
from diffgen.filters.base import Filter, FilterContext, threshold_setting
from diffgen.metrics.ssim import Moments, moments, similarity_of

_LARGEST_SIDE = 64  # pixels; a window of 7 is to be a visible part of the picture
_BATCH = 256  # images whose similarity to the whole reference set is held at once
_KEPT = 1 << 28  # bytes of the reference set's moments; those of a larger set are found when they are asked for


@settings("filters.ssim")
class SsimSettings:
    """The filter ``ssim``: structural similarity with the nearest real image."""

    threshold: Maybe[float] = threshold_setting("SSIM", ge=-1, le=1)


class SsimFilter(Filter):
    """Passes what resembles some real image.

    The nearest real images are those of the largest cosine similarities over pixels
    (:class:`diffgen.features.nearest.Nearest`); SSIM is computed with those, and the best counts. The published code
    looked them up by random hashing, among the test images instead of the training images that the paper names.

    Args:
        threshold: lowest SSIM that passes, in [-1, 1], or NaN to have it calibrated; 0.4 as published.
        neighbors: how many nearest real images SSIM is computed with.
        device: where to compute.
    """

    name = "ssim"
    any_size = True
    Settings = SsimSettings

    @classmethod
    def make(cls, context: FilterContext) -> SsimFilter:
        return cls(threshold=context.threshold(cls), device=context.device)

    def __init__(self, *, threshold: float = math.nan, neighbors: int = 10, device: torch.device | None = None) -> None:
        self.threshold = threshold
        self._neighbors = neighbors
        self._device = device or torch.device("cpu")
        self._reference: _Reference | None = None
        self._nearest: Nearest | None = None
        self.description = "SSIM with the nearest real image."

    def fit(self, real: torch.Tensor) -> None:
        """Take in the real images to compare with; uint8 (N, C, H, W)."""
        compared = self._compared(real)
        self._reference = _Reference(compared)
        self._nearest = Nearest(_directions(compared))
        self.description = f"SSIM with the most similar of {len(real)} real images (all but the held-out ones)."

    def score(self, images: torch.Tensor, *, enough: float = math.inf) -> torch.Tensor:
        """float32 (N,) in [-1, 1] for uint8 (N, C, H, W), on the CPU; see :meth:`nearest`."""
        return self.nearest(images, enough=enough)[0]

    def nearest(self, images: torch.Tensor, *, enough: float = math.inf) -> tuple[torch.Tensor, torch.Tensor]:
        """The best SSIM of each image, if any, and the row of the reference image that gives it.

        An image whose nearest neighbour gives ``enough`` is not compared with the others: most of what a search finds
        is such, and SSIM is the filter's main cost.

        Returns:
            float32 (N,) and int64 (N,), on the CPU.
        """
        if self._reference is None or self._nearest is None:
            raise RuntimeError("fit() the filter before it is asked")
        scores, rows = [torch.empty(0)], [torch.empty(0, dtype=torch.int64)]
        for batch in images.split(_BATCH) if len(images) else ():
            batch = self._compared(batch)
            candidates = self._nearest.find(_directions(batch), self._neighbors)[0]  # (n, k)
            row, own = candidates[:, 0].clone(), moments(batch)
            score = similarity_of(own, self._reference[row])
            left = (score < enough).nonzero().squeeze(1)
            own = own[left]
            for other in candidates[left, 1:].T if len(left) else ():
                found = similarity_of(own, self._reference[other])
                better = found > score[left]
                score[left[better]], row[left[better]] = found[better], other[better]
            scores.append(score.cpu())
            rows.append(row.cpu())
        return torch.cat(scores), torch.cat(rows)

    def _compared(self, images: torch.Tensor) -> torch.Tensor:
        """What is compared of uint8 (N, C, H, W): large images averaged down to 64 pixels a side."""
        return shrunk(images.to(self._device), _LARGEST_SIDE)


class _Reference:
    """The moments of real images, (N, C, H, W) as they are compared, by their rows."""

    def __init__(self, images: torch.Tensor) -> None:
        self._images = images
        # two numbers of four bytes a pixel
        self._known = moments(images) if 8 * images.numel() <= _KEPT else None

    def __getitem__(self, rows: torch.Tensor) -> Moments:
        return moments(self._images[rows]) if self._known is None else self._known[rows]


def _directions(images: torch.Tensor) -> torch.Tensor:
    """float32 (N, C H W) of length 1 for (N, C, H, W), for cosine similarities; a blank image stays zero."""
    return F.normalize(shrunk(images).flatten(1).to(torch.float32))
