"""Whether generated images lie where real ones do, and whether they reach everywhere: scores by nearest neighbours.

Precision and recall: Kynkäänniemi et al. 2019, https://arxiv.org/abs/1904.06991. Density and coverage: Naeem et al.
2020, https://arxiv.org/abs/2002.09797. The ball of an image reaches to its k-th nearest other of the same set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

PRECISION_NEIGHBORS = 3  # as in the paper on precision and recall
COVERAGE_NEIGHBORS = 5  # as in the paper on density and coverage
_ROWS = 512  # of the distances held at once: 512 x 10,000 of them take 40 MB
# Squared distances below this share of the squared norms are rounding: the features are float32.
_SAME = 1e-13


@dataclass(frozen=True)
class ManifoldScores:
    """How M generated images lie among N real ones.

    Attributes:
        precision: share of the generated images that lie in the ball of some real one.
        recall: share of the real images that lie in the ball of some generated one; outliers among the generated ones
            have large balls and flatter it.
        density: real balls that a generated image lies in, divided by k, on average; about 1 for real images.
        coverage: share of the real images in whose ball some generated image lies; falls when modes are missing.
        covered: bool (N,), those real images, on the CPU.
        nearest_generated: mean distance of a generated image to the nearest other one.
        nearest_real: the same of the real images; a small fraction of it for the generated ones means that they
            repeat each other.
    """

    precision: float
    recall: float
    density: float
    coverage: float
    covered: torch.Tensor
    nearest_generated: float
    nearest_real: float


def manifold_scores(
    real: torch.Tensor,
    generated: torch.Tensor,
    *,
    precision_neighbors: int = PRECISION_NEIGHBORS,
    coverage_neighbors: int = COVERAGE_NEIGHBORS,
) -> ManifoldScores:
    """All of these scores in one pass over the distances, a block of rows at a time.

    The border belongs to the balls of precision and recall and not to those of density and coverage, as in the code of
    either paper; the centre always does, also where the k nearest neighbours are copies.

    Args:
        real, generated: float32 or float64 (N, d) and (M, d); computed in float64 where they are.
        precision_neighbors, coverage_neighbors: k of the one and the other pair of scores.

    Raises:
        ValueError: another shape, numbers that are not finite, or no more images of a kind than neighbours.
    """
    neighbors = max(precision_neighbors, coverage_neighbors)
    for features in (real, generated):
        if features.ndim != 2 or features.shape[1] != real.shape[1] or not bool(features.isfinite().all()):
            raise ValueError(f"finite features (N, {real.shape[-1]}) are wanted, not {tuple(features.shape)}")
        if len(features) <= neighbors:
            raise ValueError(f"{neighbors} neighbours are wanted of each image, and there are {len(features)} images")
    # distances do not change, but their rounding does: the mean of features may be far larger than their spread
    origin = real[0].double()
    real, generated = real.double() - origin, generated.double() - origin
    near_real, near_generated = _nearest(real, neighbors), _nearest(generated, neighbors)
    real_ball, generated_ball = (near[:, precision_neighbors - 1] for near in (near_real, near_generated))
    coverage_ball = near_real[:, coverage_neighbors - 1]
    precise = torch.zeros(len(generated), dtype=torch.bool, device=real.device)
    balls = torch.zeros(len(generated), dtype=torch.int64, device=real.device)
    recalled, covered = [], []
    for rows, squared in _blocks(real, generated):
        precise |= (squared <= real_ball[rows, None]).any(dim=0)
        recalled.append((squared <= generated_ball).any(dim=1))
        inside = (squared < coverage_ball[rows, None]) | (squared == 0)
        balls += inside.sum(dim=0)
        covered.append(inside.any(dim=1))
    all_covered = torch.cat(covered)
    return ManifoldScores(
        precision=_mean(precise),
        recall=_mean(torch.cat(recalled)),
        density=_mean(balls) / coverage_neighbors,
        coverage=_mean(all_covered),
        covered=all_covered.cpu(),
        nearest_generated=_mean(near_generated[:, 0].sqrt()),
        nearest_real=_mean(near_real[:, 0].sqrt()),
    )


def _mean(values: torch.Tensor) -> float:
    return float(values.double().mean())


def _nearest(features: torch.Tensor, count: int) -> torch.Tensor:
    """Squared distances of each to its nearest others, float64 (N, count), ascending."""
    # the nearest of all is the image itself, or a copy of it
    near = [squared.topk(count + 1, dim=1, largest=False).values[:, 1:] for _, squared in _blocks(features, features)]
    return torch.cat(near)


def _blocks(a: torch.Tensor, b: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
    """Rows of ``a`` and their squared distances from all of ``b``, block by block."""
    norms_a, norms_b = a.square().sum(dim=1), b.square().sum(dim=1)
    for start in range(0, len(a), _ROWS):
        rows = slice(start, start + _ROWS)
        norms = norms_a[rows, None] + norms_b
        squared = torch.addmm(norms, a[rows], b.T, alpha=-2)
        yield rows, squared.masked_fill_(squared < norms.mul_(_SAME), 0)
