"""Fréchet inception distance (Heusel et al. 2017, https://arxiv.org/abs/1706.08500, section 2) of any features."""

from __future__ import annotations

import torch


def frechet_distance(real: torch.Tensor, generated: torch.Tensor) -> float:
    """Squared Fréchet distance of the normal distributions that fit two sets of features: the FID.

    ||m - m'||^2 + Tr(C + C' - 2 (C C')^(1/2)), with the unbiased covariances. It is biased upwards when there are few
    images; compare only figures of equally many.

    Args:
        real, generated: float32 or float64 (N, d) and (M, d), at least two of each; computed in float64.

    Returns:
        0 or more.

    Raises:
        ValueError: another shape, or numbers that are not finite.
    """
    (mean, covariance), (other_mean, other_covariance) = _normal(real), _normal(generated)
    if mean.shape != other_mean.shape:
        raise ValueError(f"features of different lengths: {len(mean)} and {len(other_mean)}")
    # Tr (C C')^(1/2) from R C' R with R = C^(1/2), which is symmetric: no complex roots where the covariances are
    # singular, as they are with fewer images than features
    values, vectors = torch.linalg.eigh(covariance)
    root = vectors * values.clamp(min=0).sqrt() @ vectors.T
    roots = torch.linalg.eigvalsh(root @ other_covariance @ root).clamp(min=0).sqrt()
    spread = covariance.trace() + other_covariance.trace() - 2 * roots.sum()
    return max(0.0, float((mean - other_mean).square().sum() + spread))


def _normal(features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean (d,) and covariance (d, d)."""
    if features.ndim != 2 or len(features) < 2 or not bool(features.isfinite().all()):
        raise ValueError(f"two or more rows of finite features are wanted, not {tuple(features.shape)}")
    features = features.double()
    return features.mean(dim=0), torch.cov(features.T).reshape(features.shape[1], features.shape[1])
