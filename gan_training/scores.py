"""How good the pictures of a generator are, as DiffGAN reports it: many draws of 10,000 against real images."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.features.base import FeatureExtractor
from diffgen.gan_training.manifold import COVERAGE_NEIGHBORS, PRECISION_NEIGHBORS, ManifoldScores, manifold_scores
from diffgen.types import Int64Array

SUBSETS = 100
SUBSET_SIZE = 1000


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over several draws."""

    mean: float
    std: float


def kernel_distance(
    real: torch.Tensor,
    generated: torch.Tensor,
    *,
    subsets: int = SUBSETS,
    subset_size: int = SUBSET_SIZE,
    seed: int = 0,
) -> Spread:
    """The KID, which is the mean of the unbiased squared discrepancies of random subsets, and their deviation.

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
    return Spread(float(found.mean()), float(found.std(correction=0)))


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


DRAWS = 10
IMAGES = 10_000

# how many, and where from at random -> that many images, uint8 (N, C, H, W)
Draw = Callable[[int, torch.Generator], torch.Tensor]


@dataclass(frozen=True)
class GeneratorScores:
    """Scores of a generator over several draws; see the functions that compute them.

    Attributes:
        fid, kid: :mod:`diffgen.gan_training.scores` and :mod:`diffgen.gan_training.scores`.
        precision, recall, density, coverage, nearest_generated, nearest_real:
            :class:`diffgen.gan_training.manifold.ManifoldScores`.
        coverage_by_class: share of the real images of each class that is covered, over all draws; None for a class
            without images; empty without labels.
        features: name of the extractor.
        draws: how many.
        generated, real: images in one draw.
    """

    fid: Spread
    kid: Spread
    precision: Spread
    recall: Spread
    density: Spread
    coverage: Spread
    nearest_generated: Spread
    nearest_real: Spread
    coverage_by_class: tuple[float | None, ...]
    features: str
    draws: int
    generated: int
    real: int

    def as_dict(self) -> dict[str, Any]:
        """The scores as JSON values."""
        return asdict(self)


def score_generator(
    draw: Draw,
    real: torch.Tensor,
    extractor: FeatureExtractor,
    *,
    labels: Int64Array | None = None,
    draws: int = DRAWS,
    images: int = IMAGES,
    seed: int = 0,
    batch_size: int = 256,
    progress: Progress | None = None,
) -> GeneratorScores:
    """Compare a generator's images with real ones, several times anew (paper, section 3.2).

    Args:
        draw: the generator: makes a number of random images.
        real: uint8 (N, C, H, W).
        extractor: what images are compared by.
        labels: int64 (N,) of the real images, for the coverage of each class, or None.
        draws: how often.
        images: generated images in each draw, and real ones drawn from ``real`` without replacement; all of them
            where there are fewer.
        seed: of the latent vectors and of the choice of real images.
        batch_size: images drawn and encoded at once.
        progress: where to say how far it is.

    Raises:
        UserError: too few images for the neighbours that the scores look at.
    """
    count = min(images, len(real))
    needed = max(PRECISION_NEIGHBORS, COVERAGE_NEIGHBORS) + 1
    if count < needed or draws < 1:
        raise UserError(
            f"Scores need {needed} real and {needed} generated images and a draw at least; there are {len(real)} real "
            f"ones, and {draws} draws of {images} are asked for."
        )
    rng = torch.Generator().manual_seed(seed)
    real_features = _in_double(extractor.encode(real, batch_size=batch_size))
    found: dict[str, list[float]] = {}
    covered, seen = (np.zeros(0 if labels is None else int(labels.max()) + 1) for _ in range(2))
    with (progress or Progress()).stage("Scoring the generator", total=draws) as task:
        for number in range(draws):
            rows = torch.randperm(len(real), generator=rng)[:count]
            generated = _encode(draw, extractor, images, rng, batch_size)
            some = real_features[rows.to(real_features.device)]
            scores = manifold_scores(some, generated)
            _note(
                found,
                scores,
                frechet_distance(some, generated),
                kernel_distance(some, generated, seed=seed + number).mean,
            )
            if labels is not None:
                classes = labels[rows.numpy()]
                seen += np.bincount(classes, minlength=len(seen))
                covered += np.bincount(classes[scores.covered.numpy()], minlength=len(seen))
            task.advance()
    return GeneratorScores(
        **{name: Spread(float(np.mean(values)), float(np.std(values))) for name, values in found.items()},
        coverage_by_class=tuple(float(c / n) if n else None for c, n in zip(covered, seen, strict=True)),
        features=extractor.name,
        draws=draws,
        generated=images,
        real=count,
    )


_FROM_MANIFOLD = ("precision", "recall", "density", "coverage", "nearest_generated", "nearest_real")


def _note(found: dict[str, list[float]], scores: ManifoldScores, fid: float, kid: float) -> None:
    values = {"fid": fid, "kid": kid, **{name: getattr(scores, name) for name in _FROM_MANIFOLD}}
    for name, value in values.items():
        found.setdefault(name, []).append(value)


def _encode(draw: Draw, extractor: FeatureExtractor, count: int, rng: torch.Generator, batch_size: int) -> torch.Tensor:
    """Features of newly drawn images; the images themselves are not kept."""
    sizes: Sequence[int] = [min(batch_size, count - start) for start in range(0, count, batch_size)]
    return torch.cat([_in_double(extractor.encode(draw(size, rng), batch_size=batch_size)) for size in sizes])


def _in_double(features: torch.Tensor) -> torch.Tensor:
    """float64, on the CPU where the device has none."""
    return (features.cpu() if features.device.type == "mps" else features).double()


_LEAST = 1e-5  # an unbiased KID of GANs that are as good as they get scatters around 0


def objective(scores: Mapping[str, float]) -> float:
    """FID and KID together: the logarithm of their product, so that halving either is worth the same.

    The paper minimizes both (DiffGAN, section 3.2) and does not say how one is weighed against the other.
    """
    return math.log(max(scores["fid"], _LEAST)) + math.log(max(scores["kid"], _LEAST))
