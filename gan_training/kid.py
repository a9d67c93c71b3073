"""Kernel inception distance (Binkowski et al. 2018, https://arxiv.org/abs/1801.01401, section 4) of any features."""

from __future__ import annotations

from dataclasses import dataclass

import torch

SUBSETS = 100
SUBSET_SIZE = 1000


@dataclass(frozen=True)
class KernelDistance:
    """Mean and standard deviation of the squared maximum mean discrepancy over subsets; the mean is the KID."""

    mean: float
    std: float


def kernel_distance(
    real: torch.Tensor,
    generated: torch.Tensor,
    *,
    subsets: int = SUBSETS,
    subset_size: int = SUBSET_SIZE,
    seed: int = 0,
) -> KernelDistance:
    """The KID: the unbiased squared discrepancy of random subsets, averaged.

    Args:
        real, generated: float32 or float64 (N, d) and (M, d), at least two of each; computed in float64.
        subsets: how many pairs of subsets are drawn, each without replacement.
        subset_size: images in a subset; all of them where there are fewer.
        seed: of the draws.

    Returns:
        About 0 for two samples of one distribution, and then often a little below: the estimate is unbiased.

    Raises:
        ValueError: another shape, or numbers that are not finite.
    """
    size = min(subset_size, len(real), len(generated))
    rng = torch.Generator().manual_seed(seed)

    def subset(features: torch.Tensor) -> torch.Tensor:
        return features[torch.randperm(len(features), generator=rng)[:size].to(features.device)]

    found = torch.tensor([squared_discrepancy(subset(real), subset(generated)) for _ in range(subsets)])
    return KernelDistance(float(found.mean()), float(found.std(correction=0)))


def squared_discrepancy(x: torch.Tensor, y: torch.Tensor) -> float:
    """Unbiased squared maximum mean discrepancy with the kernel (x . y / d + 1)^3 (Gretton et al. 2012, eq. 3).

    No feature is compared with itself, and the sums are divided by what is left; the published code of DiffGAN divides
    so too but leaves the diagonal in.

    Args:
        x, y: float32 or float64 (N, d) and (M, d), at least two of each.

    Raises:
        ValueError: another shape, or numbers that are not finite.
    """
    for each in (x, y):
        if each.ndim != 2 or len(each) < 2 or each.shape[1] != x.shape[1] or not bool(each.isfinite().all()):
            raise ValueError(f"finite features (N, {x.shape[-1]}), N >= 2, are wanted, not {tuple(each.shape)}")
    x, y = x.double(), y.double()
    return _mean_of_others(_kernel(x, x)) + _mean_of_others(_kernel(y, y)) - 2 * float(_kernel(x, y).mean())


def _kernel(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.mm(x, y.T).div_(x.shape[1]).add_(1).pow_(3)


def _mean_of_others(kernel: torch.Tensor) -> float:
    count = len(kernel)
    return float((kernel.sum() - kernel.trace()) / (count * (count - 1)))
