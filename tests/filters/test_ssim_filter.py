"""diffgen.filters.ssim against a search by loop with scikit-image's SSIM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from skimage.metrics import structural_similarity as of_scikit_image

from diffgen.filters import SsimFilter, ssim


def fitted(reference: torch.Tensor, **options: Any) -> SsimFilter:
    made = SsimFilter(**options)
    made.fit(reference)
    return made


def by_loop(image: np.ndarray, reference: np.ndarray, neighbors: int) -> tuple[float, bool]:
    """Best SSIM with the nearest images, and whether a rounding error could have chosen other neighbours."""
    flat = image.astype(float).ravel()
    cosines = []
    for other in reference.astype(float).reshape(len(reference), -1):
        length = np.sqrt(flat @ flat) * np.sqrt(other @ other)
        cosines.append(flat @ other / length if length else 0.0)
    order = sorted(range(len(reference)), key=lambda row: -cosines[row])
    nearest = order[:neighbors]
    close = len(order) > neighbors and cosines[order[neighbors - 1]] - cosines[order[neighbors]] < 1e-6
    return max(of_scikit_image(image, reference[row], data_range=255, channel_axis=0) for row in nearest), close


@pytest.mark.parametrize("neighbors", [1, 3, 10])
def test_nearest_equals_a_plain_search(parts: Any, neighbors: int) -> None:
    images, reference = parts.mixed.numpy(), parts.reference[:300].numpy()
    scores, rows = fitted(parts.reference[:300], neighbors=neighbors).nearest(parts.mixed)
    assert scores.shape == rows.shape == (100,)
    assert scores.dtype == torch.float32
    assert rows.dtype == torch.int64
    compared = 0
    for image, score, row in zip(images, scores.tolist(), rows.tolist(), strict=True):
        expected, close = by_loop(image, reference, neighbors)
        if close:
            continue
        compared += 1
        assert abs(score - expected) < 1e-4
        # the row is the one that gives this score
        assert abs(of_scikit_image(image, reference[row], data_range=255, channel_axis=0) - expected) < 1e-4
    assert compared > 90


def test_colour_images() -> None:
    rng = torch.Generator().manual_seed(0)
    reference = torch.randint(256, (40, 3, 32, 32), generator=rng, dtype=torch.uint8)
    images = torch.cat([reference[5:8] // 2 + 40, torch.randint(256, (3, 3, 32, 32), generator=rng, dtype=torch.uint8)])
    scores, rows = fitted(reference, neighbors=4).nearest(images)
    assert rows[:3].tolist() == [5, 6, 7]
    for image, score in zip(images.numpy(), scores.tolist(), strict=True):
        assert abs(score - by_loop(image, reference.numpy(), 4)[0]) < 1e-4


def test_more_batches_than_one(parts: Any) -> None:
    """Longer than what is compared with the reference set at once."""
    images = torch.cat([parts.reference[:500], parts.noise])
    judge = fitted(parts.reference[100:200])
    together_scores, together_rows = judge.nearest(images)
    apart = [judge.nearest(batch) for batch in images.split(7)]
    torch.testing.assert_close(together_scores, torch.cat([scores for scores, _ in apart]), rtol=0, atol=1e-5)
    assert torch.equal(together_rows, torch.cat([rows for _, rows in apart]))


def test_a_reference_set_whose_moments_are_too_many_to_keep(parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = fitted(parts.reference[:300])
    monkeypatch.setattr(ssim, "_KEPT", 0)
    asked = fitted(parts.reference[:300])
    assert kept._reference is not None and kept._reference._known is not None
    assert asked._reference is not None and asked._reference._known is None
    for enough in (0.4, 2.0):
        scores, rows = asked.nearest(parts.mixed, enough=enough)
        torch.testing.assert_close(scores, kept.nearest(parts.mixed, enough=enough)[0], rtol=0, atol=1e-5)
        assert torch.equal(rows, kept.nearest(parts.mixed, enough=enough)[1])


@pytest.mark.parametrize("neighbors", [5, 6, 100])
def test_more_neighbours_than_real_images(parts: Any, neighbors: int) -> None:
    reference = parts.reference[:5]
    scores, rows = fitted(reference, neighbors=neighbors).nearest(parts.mixed[:20])
    for image, score, row in zip(parts.mixed[:20].numpy(), scores.tolist(), rows.tolist(), strict=True):
        all_scores = [of_scikit_image(image, each, data_range=255, channel_axis=0) for each in reference.numpy()]
        assert abs(score - max(all_scores)) < 1e-4
        assert abs(all_scores[row] - max(all_scores)) < 1e-4


@pytest.mark.parametrize("enough", [-1.0, 0.2, 0.4, 0.8, 2.0])
def test_a_score_that_is_enough_saves_the_other_neighbours(parts: Any, enough: float) -> None:
    judge = fitted(parts.reference[:300])
    exact, first = judge.score(parts.mixed), fitted(parts.reference[:300], neighbors=1).score(parts.mixed)
    found = judge.score(parts.mixed, enough=enough)
    torch.testing.assert_close(found, torch.where(first >= enough, first, exact), rtol=0, atol=1e-6)


def test_nothing_asked(parts: Any) -> None:
    judge = fitted(parts.reference[:20])
    scores, rows = judge.nearest(parts.noise[:0])
    assert (scores.shape, scores.dtype) == ((0,), torch.float32)
    assert (rows.shape, rows.dtype) == ((0,), torch.int64)
    assert judge.score(parts.noise[:0]).shape == (0,)


@pytest.mark.parametrize("level", [0, 1, 128, 255])
def test_blank_images(parts: Any, level: int) -> None:
    """A black one has no direction, so that all real images are equally near."""
    blank = torch.full((3, 1, 28, 28), level, dtype=torch.uint8)
    scores, rows = fitted(parts.reference).nearest(blank)
    assert torch.isfinite(scores).all()
    assert (scores < 0.4).all()
    for score, row in zip(scores.tolist(), rows.tolist(), strict=True):
        expected = of_scikit_image(blank[0].numpy(), parts.reference[row].numpy(), data_range=255, channel_axis=0)
        assert abs(score - expected) < 1e-4


def test_a_blank_real_image_does_no_harm(parts: Any) -> None:
    reference = torch.cat([torch.zeros(1, 1, 28, 28, dtype=torch.uint8), parts.reference[:50]])
    scores, rows = fitted(reference).nearest(parts.reference[:50])
    torch.testing.assert_close(scores, torch.ones(50), rtol=0, atol=1e-5)
    assert torch.equal(rows, torch.arange(1, 51))


def test_asking_before_fitting_is_a_mistake_in_the_program(parts: Any) -> None:
    with pytest.raises(RuntimeError, match="fit"):
        SsimFilter().score(parts.noise)
