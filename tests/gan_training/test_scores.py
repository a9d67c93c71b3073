"""diffgen.gan_training: FID, KID, precision, recall, density and coverage against slow versions of them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from diffgen.data import load as load_data
from diffgen.errors import UserError
from diffgen.features import encoder as encoders
from diffgen.gan_training.manifold import manifold_scores
from diffgen.gan_training.scores import (
    GeneratorScores,
    frechet_distance,
    kernel_distance,
    score_generator,
    squared_discrepancy,
)

Array = NDArray[np.float64]


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@st.composite
def feature_sets(draw: st.DrawFn, *, fewest: int = 6) -> torch.Tensor:
    """Features of a size and spread of their own; with copies of some rows, now and then."""
    count, length = draw(st.integers(fewest, 30)), draw(st.integers(1, 5))
    rows = normal(count, length, seed=draw(st.integers(0, 10_000))) * 10.0 ** draw(st.integers(-2, 2))
    rows += draw(st.sampled_from([0.0, 1.0, 1000.0]))
    copies = draw(st.integers(0, count - 1))
    rows[:copies] = rows[-1]
    return rows


# -- FID -------------------------------------------------------------------------------------------------------------


def slow_fid(x: Array, y: Array) -> float:
    """As the paper writes it, with a matrix root that may be complex."""
    root = scipy.linalg.sqrtm(np.cov(x.T) @ np.cov(y.T))
    return float(
        ((x.mean(axis=0) - y.mean(axis=0)) ** 2).sum() + np.trace(np.cov(x.T) + np.cov(y.T) - 2 * np.real(root))
    )


@pytest.mark.parametrize(("count", "length"), [(200, 2), (500, 20), (100, 64)])
def test_fid_as_written(count: int, length: int) -> None:
    x = normal(count, length) @ normal(length, length, seed=1) + 3
    y = normal(count + 50, length, seed=2) @ normal(length, length, seed=3)
    assert frechet_distance(x, y) == pytest.approx(slow_fid(x.numpy(), y.numpy()), rel=1e-6)
    assert frechet_distance(x.float(), y.float()) == pytest.approx(slow_fid(x.numpy(), y.numpy()), rel=1e-4)


@given(features=feature_sets(), shift=st.floats(-100, 100))
def test_fid_of_a_set_and_its_copies(features: torch.Tensor, shift: float) -> None:
    scale = float(features.square().mean()) + shift**2
    shuffled = features.flip(0)
    assert frechet_distance(features, shuffled) <= 1e-6 * scale
    moved = frechet_distance(features, features + shift)
    assert moved == pytest.approx(features.shape[1] * shift**2, rel=1e-4, abs=1e-6 * scale)
    assert frechet_distance(features + shift, features) == pytest.approx(moved, rel=1e-4, abs=1e-6 * scale)


def test_fid_with_fewer_images_than_features() -> None:
    """The covariances are singular, and the distance is still a number that grows with the difference."""
    x = normal(20, 64)
    distances = [frechet_distance(x, normal(20, 64, seed=1) * spread) for spread in (1, 3, 9)]
    assert all(math.isfinite(each) for each in distances)
    assert distances == sorted(distances)


# -- KID -------------------------------------------------------------------------------------------------------------


def slow_discrepancy(x: Array, y: Array) -> float:
    """Equation 3 of Gretton et al., one pair at a time."""

    def kernel(a: Array, b: Array) -> float:
        return (sum(p * q for p, q in zip(a, b, strict=True)) / len(a) + 1) ** 3

    within = [sum(kernel(a, b) for a, b in itertools.permutations(z, 2)) / (len(z) * (len(z) - 1)) for z in (x, y)]
    return sum(within) - 2 * sum(kernel(a, b) for a in x for b in y) / (len(x) * len(y))


@given(seed=st.integers(0, 1000), count=st.integers(2, 8), other=st.integers(2, 8), length=st.integers(1, 4))
@settings(max_examples=30)
def test_kid_as_written(seed: int, count: int, other: int, length: int) -> None:
    x, y = normal(count, length, seed=seed), normal(other, length, seed=seed + 1) + 1
    expected = slow_discrepancy(x.numpy(), y.numpy())
    assert squared_discrepancy(x, y) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_kid_of_subsets() -> None:
    x, y = normal(400, 8), normal(300, 8, seed=1) + 0.5
    found = kernel_distance(x, y, subsets=200, subset_size=50)
    assert found.mean == pytest.approx(squared_discrepancy(x, y), abs=4 * found.std / math.sqrt(200))
    assert found.std > 0
    assert kernel_distance(x, y, subsets=200, subset_size=50) == found
    assert kernel_distance(x, y, subsets=200, subset_size=50, seed=1) != found
    torch.rand(3)
    assert kernel_distance(x, y, subsets=200, subset_size=50) == found  # nothing global is asked
    whole = kernel_distance(x[:300], y, subsets=2)  # fewer than a subset: all of them
    assert whole.mean == pytest.approx(squared_discrepancy(x[:300], y))
    assert whole.std == pytest.approx(0, abs=1e-12)


# -- precision, recall, density, coverage ----------------------------------------------------------------------------


def slow_manifold(real: Array, generated: Array, k: int, c: int) -> dict[str, float]:
    """The definitions, one pair at a time."""

    def distance(a: Array, b: Array) -> float:
        return math.sqrt(sum((p - q) ** 2 for p, q in zip(a, b, strict=True)))

    def radius(points: Array, index: int, neighbors: int) -> float:
        return sorted(distance(points[index], other) for i, other in enumerate(points) if i != index)[neighbors - 1]

    n, m = len(real), len(generated)
    real_k, real_c = [radius(real, i, k) for i in range(n)], [radius(real, i, c) for i in range(n)]
    generated_k = [radius(generated, j, k) for j in range(m)]
    d = [[distance(a, b) for b in generated] for a in real]
    return {
        "precision": sum(any(d[i][j] <= real_k[i] for i in range(n)) for j in range(m)) / m,
        "recall": sum(any(d[i][j] <= generated_k[j] for j in range(m)) for i in range(n)) / n,
        "density": sum(d[i][j] < real_c[i] for i in range(n) for j in range(m)) / (c * m),
        "coverage": sum(any(d[i][j] < real_c[i] for j in range(m)) for i in range(n)) / n,
        "nearest_generated": sum(radius(generated, j, 1) for j in range(m)) / m,
        "nearest_real": sum(radius(real, i, 1) for i in range(n)) / n,
    }


@given(
    seed=st.integers(0, 10_000), n=st.integers(6, 25), m=st.integers(6, 25), length=st.integers(1, 5),
    spread=st.floats(0.1, 3), shift=st.floats(-2, 2), k=st.integers(1, 5), c=st.integers(1, 5),
)  # fmt: skip
def test_manifold_scores_as_written(
    seed: int, n: int, m: int, length: int, spread: float, shift: float, k: int, c: int
) -> None:
    real, generated = normal(n, length, seed=seed), normal(m, length, seed=seed + 1) * spread + shift
    found = manifold_scores(real, generated, precision_neighbors=k, coverage_neighbors=c)
    for name, value in slow_manifold(real.numpy(), generated.numpy(), k, c).items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-9), name
    assert found.covered.double().mean() == pytest.approx(found.coverage)


def test_the_same_in_several_blocks() -> None:
    """More rows than a block holds, of a length and an offset that rounding could hurt."""
    real, generated = normal(1100, 64) + 1000, normal(700, 64, seed=1) * 0.9 + 1000
    found = manifold_scores(real.float(), generated.float())
    d = torch.cdist(real, generated, compute_mode="donot_use_mm_for_euclid_dist")
    within = torch.cdist(real, real, compute_mode="donot_use_mm_for_euclid_dist").sort(dim=1).values
    assert found.coverage == pytest.approx(float((d < within[:, 5:6]).any(dim=1).double().mean()), abs=2e-3)
    assert found.precision == pytest.approx(float((d <= within[:, 3:4]).any(dim=0).double().mean()), abs=2e-3)
    assert found.nearest_real == pytest.approx(float(within[:, 1].mean()), rel=1e-4)


@given(features=feature_sets())
def test_a_set_covers_itself(features: torch.Tensor) -> None:
    """Also where many of its images are copies of one."""
    found = manifold_scores(features, features.flip(0))
    assert found.precision == found.recall == found.coverage == 1
    assert bool(found.covered.all())
    assert found.density >= 0.99 or features.unique(dim=0).shape[0] < len(features)
    assert found.nearest_generated == pytest.approx(found.nearest_real, rel=1e-6)


@pytest.mark.parametrize("score", [frechet_distance, squared_discrepancy, manifold_scores])
def test_features_that_cannot_be_compared(score: object) -> None:
    assert callable(score)
    broken = normal(20, 3)
    broken[4, 1] = math.nan
    for x, y in [(normal(20, 3), normal(20, 4)), (normal(20, 3), broken), (normal(20, 3), normal(1, 3))]:
        with pytest.raises(ValueError, match=r"feature|neighbours"):
            score(x, y)


# -- a whole generator -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits() -> tuple[torch.Tensor, NDArray[np.int64]]:
    data = load_data("digits:test")
    assert data.labels is not None
    return torch.from_numpy(data.images), data.labels


@pytest.fixture(scope="module")
def encoder(digits: tuple[torch.Tensor, NDArray[np.int64]]) -> encoders.DomainEncoder:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoders, "_STEPS_GREY", 60)
        patch.setattr(encoders, "_STEPS_COLOUR", 60)
        return encoders.train(digits[0], torch.from_numpy(digits[1]))


class Sampler:
    """Hands out real images of the other half; knows what it was asked."""

    def __init__(self, images: torch.Tensor) -> None:
        self.images = images
        self.asked: list[int] = []

    def __call__(self, count: int, rng: torch.Generator) -> torch.Tensor:
        self.asked.append(count)
        return self.images[torch.randint(len(self.images), (count,), generator=rng)]


def test_a_generator_is_scored_over_its_draws(
    digits: tuple[torch.Tensor, NDArray[np.int64]], encoder: encoders.DomainEncoder
) -> None:
    images, labels = digits
    others = load_data("digits:train")
    good = Sampler(torch.from_numpy(others.images))
    assert others.labels is not None
    ones = Sampler(torch.from_numpy(others.images[others.labels == 1][:5]))

    def scored(sampler: Sampler, seed: int = 0) -> GeneratorScores:
        return score_generator(sampler, images, encoder, labels=labels, draws=2, images=500, seed=seed, batch_size=200)

    found, collapsed = scored(good), scored(ones)
    assert good.asked == [200, 200, 100] * 2
    assert (found.draws, found.generated, found.real, found.features) == (2, 500, 500, "domain")
    assert scored(good) == found
    assert scored(good, seed=1) != found
    assert found.fid.std > 0
    assert collapsed.fid.mean > 5 * found.fid.mean
    assert collapsed.kid.mean > 5 * abs(found.kid.mean)
    assert found.coverage.mean > 0.6
    assert collapsed.coverage.mean < 0.1
    assert len(found.coverage_by_class) == 10
    assert all(each is not None and each > 0.3 for each in found.coverage_by_class)
    assert sum(each or 0 for number, each in enumerate(collapsed.coverage_by_class) if number != 1) < 0.2
    assert found.as_dict()["coverage"] == {"mean": found.coverage.mean, "std": found.coverage.std}


def test_scores_against_the_functions_themselves(
    digits: tuple[torch.Tensor, NDArray[np.int64]], encoder: encoders.DomainEncoder
) -> None:
    """One draw of as many images as there are: nothing is left to chance but their order."""
    images = digits[0][:300]
    found = score_generator(
        lambda count, rng: images[:count].flip(3), images, encoder, draws=1, images=300, batch_size=300
    )
    features, flipped = encoder.encode(images), encoder.encode(images.flip(3))
    expected = manifold_scores(features, flipped)
    assert found.fid.mean == pytest.approx(frechet_distance(features, flipped), rel=1e-3)
    assert found.kid.mean == pytest.approx(squared_discrepancy(features, flipped), rel=1e-3)
    assert found.coverage.mean == pytest.approx(expected.coverage, abs=0.01)
    assert found.density.mean == pytest.approx(expected.density, rel=0.02)
    assert found.nearest_generated.mean == pytest.approx(expected.nearest_generated, rel=1e-3)
    assert found.coverage_by_class == ()
    assert found.fid.std == 0


def test_a_class_without_images(
    digits: tuple[torch.Tensor, NDArray[np.int64]], encoder: encoders.DomainEncoder
) -> None:
    images, labels = digits
    kept = labels != 3
    found = score_generator(
        Sampler(images), images[torch.from_numpy(kept)], encoder, labels=labels[kept], draws=1, images=100
    )
    assert found.coverage_by_class[3] is None


def test_too_few_images(digits: tuple[torch.Tensor, NDArray[np.int64]], encoder: encoders.DomainEncoder) -> None:
    with pytest.raises(UserError, match="need 6 real"):
        score_generator(Sampler(digits[0]), digits[0][:5], encoder)
