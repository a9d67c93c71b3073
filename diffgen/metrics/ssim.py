"""Structural similarity of many pairs of images at once (Wang et al. 2004)."""

from __future__ import annotations

import torch

WINDOW = 7  # pixels; scikit-image's default, which the published code uses
_K1, _K2 = 0.01, 0.03
_MIDDLE = 127.5
_AT_ONCE = 1 << 17  # values; the moments of more pairs at once leave the cache, and take half as long again


def structural_similarity(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """SSIM of each pair, averaged over the window positions and the channels.

    The same as ``skimage.metrics.structural_similarity`` with its defaults (uniform 7x7 window, sample covariance) and
    ``data_range=255, channel_axis=0``.

    Args:
        a, b: (N, C, H, W), grey levels from 0 to 255, H and W at least 7.

    Returns:
        float32 (N,) in [-1, 1].
    """
    pairs = max(1, _AT_ONCE // max(1, a[0].numel())) if len(a) else 1
    if len(a) > pairs:
        parts = zip(a.split(pairs), b.split(pairs), strict=True)
        return torch.cat([structural_similarity(some, others) for some, others in parts])
    # moments about the middle of the range: variances stay the same and float32 loses fewer digits
    x, y = a.to(torch.float32) - _MIDDLE, b.to(torch.float32) - _MIDDLE
    pixels = WINDOW * WINDOW
    # only positions at which the window lies inside the image count
    rows, columns = _windows(x.shape[2], x.device), _windows(x.shape[3], x.device)
    mean_x, mean_y, mean_xx, mean_yy, mean_xy = (rows.T @ (m @ columns) for m in (x, y, x * x, y * y, x * y))
    unbiased = pixels / (pixels - 1)
    variance_x = unbiased * (mean_xx - mean_x * mean_x)
    variance_y = unbiased * (mean_yy - mean_y * mean_y)
    covariance = unbiased * (mean_xy - mean_x * mean_y)
    mean_x, mean_y = mean_x + _MIDDLE, mean_y + _MIDDLE
    c1, c2 = (_K1 * 255) ** 2, (_K2 * 255) ** 2
    numerator = (2 * mean_x * mean_y + c1) * (2 * covariance + c2)
    denominator = (mean_x**2 + mean_y**2 + c1) * (variance_x + variance_y + c2)
    return (numerator / denominator).flatten(1).mean(dim=1)


def _windows(side: int, device: torch.device) -> torch.Tensor:
    """float32 (side, side - 6): averages over all windows as one matrix product, five times as fast as pooling."""
    positions = torch.arange(side, device=device)[:, None] - torch.arange(side - WINDOW + 1, device=device)
    return ((positions >= 0) & (positions < WINDOW)).to(torch.float32) / WINDOW
