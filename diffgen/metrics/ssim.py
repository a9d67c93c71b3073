"""Structural similarity of many pairs of images at once (Wang et al. 2004)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

WINDOW = 7  # pixels; scikit-image's default, which the published code uses
_K1, _K2 = 0.01, 0.03
_C1, _C2 = (_K1 * 255) ** 2, (_K2 * 255) ** 2
_MIDDLE = 127.5
_UNBIASED = WINDOW**2 / (WINDOW**2 - 1)
_AT_ONCE = 1 << 17  # values; the windows of more pairs at once leave the cache, and take half as long again


@dataclass(frozen=True)
class Moments:
    """What SSIM wants to know of N images one by one, whatever they are compared with.

    Attributes:
        images: (N, C, H, W), grey levels from 0 to 255.
        means: float32 (N, C, H - 6, W - 6), of each window, less the middle of the range.
        variances: float32 (N, C, H - 6, W - 6), of each window, unbiased.
    """

    images: torch.Tensor
    means: torch.Tensor
    variances: torch.Tensor

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, rows: torch.Tensor | slice) -> Moments:
        return Moments(self.images[rows], self.means[rows], self.variances[rows])


def moments(images: torch.Tensor) -> Moments:
    """The moments of images (N, C, H, W), grey levels from 0 to 255, H and W at least 7."""
    count, channels, height, width = images.shape
    shape = (count, channels, height - WINDOW + 1, width - WINDOW + 1)
    means, variances = (torch.empty(shape, device=images.device) for _ in range(2))
    for some in _parts(images):
        values = _centred(images[some])
        means[some] = _over_windows(values)
        variances[some] = _over_windows(values * values).sub_(means[some].square()).mul_(_UNBIASED)
    return Moments(images, means, variances)


def structural_similarity(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """SSIM of each pair, averaged over the window positions and the channels.

    The same as ``skimage.metrics.structural_similarity`` with its defaults (uniform 7x7 window, sample covariance) and
    ``data_range=255, channel_axis=0``.

    Args:
        a, b: (N, C, H, W), grey levels from 0 to 255, H and W at least 7.

    Returns:
        float32 (N,) in [-1, 1].
    """
    return similarity_of(moments(a), moments(b))


def similarity_of(a: Moments, b: Moments) -> torch.Tensor:
    """:func:`structural_similarity` of images whose moments are known, a third of its work; float32 (N,)."""
    return torch.cat([_similarity(a[some], b[some]) for some in _parts(a.images)])


def _similarity(a: Moments, b: Moments) -> torch.Tensor:
    product = a.means * b.means
    twice_covariance = _over_windows(_centred(a.images) * _centred(b.images)).sub_(product).mul_(2 * _UNBIASED)
    # with m for the middle of the range: 2 (x + m) (y + m), and (x + m)^2 + (y + m)^2 is that plus (x - y)^2
    luminance = product.add_(a.means + b.means, alpha=_MIDDLE).mul_(2).add_(2 * _MIDDLE**2 + _C1)
    difference = a.means - b.means
    denominator = difference.mul_(difference).add_(luminance).mul_(a.variances + b.variances + _C2)
    return luminance.mul_(twice_covariance.add_(_C2)).div_(denominator).flatten(1).mean(dim=1)


def _parts(images: torch.Tensor) -> list[slice]:
    """Rows of images whose windows are looked at together; one part, which is empty, of no images."""
    size = max(1, _AT_ONCE // max(1, images[0].numel())) if len(images) else 1
    return [slice(start, start + size) for start in range(0, max(1, len(images)), size)]


def _centred(images: torch.Tensor) -> torch.Tensor:
    """Grey levels less the middle of the range: variances stay the same, and float32 loses fewer digits."""
    return images.to(torch.float32) - _MIDDLE


def _over_windows(values: torch.Tensor) -> torch.Tensor:
    """Means over every window that lies inside; two products of matrices, five times as fast as pooling."""
    rows, columns = (_windows(side, values.device) for side in values.shape[2:])
    return rows.T @ (values @ columns)


@cache
def _windows(side: int, device: torch.device) -> torch.Tensor:
    """float32 (side, side - 6): what each pixel of a row counts in the mean of each window."""
    positions = torch.arange(side, device=device)[:, None] - torch.arange(side - WINDOW + 1, device=device)
    return ((positions >= 0) & (positions < WINDOW)).to(torch.float32) / WINDOW
