"""diffgen.filters.pipeline against asking about one image at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffgen.errors import UserError
from diffgen.filters import DiscriminatorFilter, FilterPipeline, SsimFilter


class PixelFilter:
    """The grey level of one pixel as the score; notes what it was asked about."""

    description = "Grey level of one pixel."

    def __init__(self, column: int, threshold: float = 0.0) -> None:
        self.name = f"pixel {column}"
        self.threshold = threshold
        self.asked: list[int] = []
        self._column = column

    def fit(self, real: torch.Tensor) -> None:
        self.real = len(real)

    def score(self, images: torch.Tensor, *, enough: float = math.inf) -> torch.Tensor:
        assert len(images) > 0
        self.asked += images[:, 0, 0, -1].tolist()
        return images[:, 0, 0, self._column].float()


def one_by_one(filters: list[Any], images: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Scores (N, F) and the index of the filter that rejected each image."""
    scores, rejected_by = np.full((len(images), len(filters)), np.nan), np.full(len(images), -1)
    for row in range(len(images)):
        for index, each in enumerate(filters):
            scores[row, index] = each.score(images[row : row + 1]).item()
            if scores[row, index] < each.threshold:
                rejected_by[row] = index
                break
    return scores, rejected_by


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda levels: levels.numpy(), "pixel 0 gives ndarray for 9 images"),
        (lambda levels: levels[:, None], r"pixel 0 gives a tensor of \(9, 1\) for 9 images"),
        (lambda levels: levels / 0 * 0, "pixel 0 gives NaN for a real image"),
    ],
)
def test_a_filter_with_a_mistake_is_named(given: Any, message: str) -> None:
    class Mistaken(PixelFilter):
        def score(self, images: torch.Tensor, *, enough: float = math.inf) -> Any:
            return given(super().score(images))

    images = torch.full((9, 1, 8, 8), 7, dtype=torch.uint8)
    with pytest.raises(UserError, match=message):
        FilterPipeline([Mistaken(0)]).fit(images, images)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.bfloat16, torch.float64])
def test_scores_of_every_type_are_kept_as_float32(dtype: torch.dtype) -> None:
    class Typed(PixelFilter):
        def score(self, images: torch.Tensor, *, enough: float = math.inf) -> torch.Tensor:
            return super().score(images).to(dtype)

    images = torch.arange(9, dtype=torch.uint8)[:, None, None, None].expand(9, 1, 8, 8).contiguous()
    pipeline = FilterPipeline([Typed(0)])
    pipeline.fit(images, images)
    scores = pipeline.scores(images)
    assert scores.dtype == np.float32
    assert scores[:, 0].tolist() == torch.arange(9).to(dtype).float().tolist()


@pytest.mark.parametrize("asked", [FilterPipeline.apply, FilterPipeline.accepts, FilterPipeline.violation])
def test_a_filter_that_makes_its_mistake_later_is_named_too(asked: Any) -> None:
    class Late(PixelFilter):
        def score(self, images: torch.Tensor, *, enough: float = math.inf) -> Any:
            return super().score(images)[: len(images) - (images[:, 0, 0, 0] == 9).sum()]

    images = torch.full((9, 1, 8, 8), 7, dtype=torch.uint8)
    pipeline = FilterPipeline([Late(0)])
    pipeline.fit(images, images)
    with pytest.raises(UserError, match=r"pixel 0 gives a tensor of \(0,\) for 3 images"):
        asked(pipeline, images[:3] + 2)


def test_a_network_may_be_a_filter() -> None:
    class Learned(PixelFilter):
        def score(self, images: torch.Tensor, *, enough: float = math.inf) -> torch.Tensor:
            return super().score(images) * torch.ones(1, requires_grad=True)

    images = torch.arange(9, dtype=torch.uint8).reshape(9, 1, 1, 1)
    assert FilterPipeline([Learned(0, 5.0)]).apply(images).accepted.tolist() == [False] * 5 + [True] * 4


@pytest.fixture(scope="module")
def real_filters(parts: Any) -> list[Any]:
    strict = float(parts.scorer.score(parts.held_out).quantile(0.3))
    found = [DiscriminatorFilter(parts.scorer, threshold=strict), SsimFilter(threshold=0.8, neighbors=2)]
    FilterPipeline(found).fit(parts.reference[:300], parts.held_out)
    return found


@pytest.mark.parametrize("turned_round", [False, True])
@pytest.mark.parametrize("batch_size", [1, 7, 99, 100, 101, 1024])
def test_real_filters_equal_one_image_at_a_time(
    parts: Any, real_filters: list[Any], batch_size: int, turned_round: bool
) -> None:
    filters = real_filters[::-1] if turned_round else real_filters
    scores, rejected_by = one_by_one(filters, parts.mixed)
    found = FilterPipeline(filters).apply(parts.mixed, batch_size=batch_size)
    # a decision may hang on the last digit of a score
    sure = (np.nan_to_num(np.abs(scores - [each.threshold for each in filters]), nan=1) > 1e-4).all(axis=1)
    assert sure.sum() > 90
    assert np.array_equal(found.rejected_by[sure], rejected_by[sure])
    np.testing.assert_allclose(found.scores[sure], scores[sure], rtol=0, atol=1e-4)
    assert {*rejected_by.tolist()} == {-1, 0, 1}  # every outcome was tried
    accepted = FilterPipeline(filters).accepts(parts.mixed, batch_size=batch_size)
    assert np.array_equal(accepted[sure], rejected_by[sure] == -1)


def test_what_is_accepted_is_told_without_whole_scores() -> None:
    wanted: list[float] = []

    class UpToEnough(PixelFilter):
        def score(self, images: torch.Tensor, *, enough: float = math.inf) -> torch.Tensor:
            wanted.append(enough)
            return super().score(images).clamp(max=enough)

    filters = [UpToEnough(0, 5.0), UpToEnough(1, 9.0)]
    images = torch.tensor([[4, 20, 0], [5, 9, 1], [200, 8, 2], [250, 250, 3]], dtype=torch.uint8).view(4, 1, 1, 3)
    assert FilterPipeline(filters).accepts(images).tolist() == [False, True, False, True]
    assert filters[1].asked[-3:] == [1, 2, 3]  # the first was rejected before
    assert wanted == [5.0, 9.0]
    assert FilterPipeline([]).accepts(images).all() and FilterPipeline(filters).accepts(images[:0]).shape == (0,)


def test_fit_reaches_every_filter(parts: Any) -> None:
    given_here = [DiscriminatorFilter(parts.scorer), SsimFilter(), PixelFilter(14, math.nan), PixelFilter(13, 3.0)]
    pipeline = FilterPipeline(given_here, false_alarm=0.1)
    pipeline.fit(parts.reference[:64], parts.held_out)
    assert not any(math.isnan(each.threshold) for each in given_here)
    assert "64 real images" in given_here[1].description
    assert given_here[2].real == 64
    assert given_here[3].threshold == 3.0


def test_calibration_keeps_the_stated_share_of_real_images(parts: Any) -> None:
    """The share is that of the whole chain, as it is asked afterwards."""
    for rate in (0.0, 0.05, 0.2):
        pipeline = FilterPipeline([DiscriminatorFilter(parts.scorer), SsimFilter(neighbors=3)], false_alarm=rate)
        pipeline.fit(parts.reference[:300], parts.held_out)
        rejected = (~pipeline.apply(parts.held_out).accepted).mean()
        assert rate - 0.03 < rejected <= rate + 0.02  # a decision may hang on the last digit of a score
        assert pipeline.calibration.together <= rate


def test_asking_for_the_calibration_before_fitting_is_a_mistake_in_the_program() -> None:
    with pytest.raises(RuntimeError, match="fit"):
        _ = FilterPipeline([]).calibration


@st.composite
def cases(draw: st.DrawFn) -> tuple[torch.Tensor, list[float], int]:
    count, filters = draw(st.integers(0, 20)), draw(st.integers(0, 4))
    levels = draw(st.lists(st.lists(st.integers(0, 9), min_size=5, max_size=5), min_size=count, max_size=count))
    images = torch.tensor(levels, dtype=torch.uint8).reshape(count, 1, 1, 5)
    images[..., -1] = torch.arange(count, dtype=torch.uint8)[:, None, None]  # the number of the image
    thresholds = draw(st.lists(st.integers(0, 10).map(float), min_size=filters, max_size=filters))
    return images, thresholds, draw(st.integers(1, 25))


@given(cases())
def test_any_filters_equal_one_image_at_a_time(case: tuple[torch.Tensor, list[float], int]) -> None:
    images, thresholds, batch_size = case
    filters = [PixelFilter(column, threshold) for column, threshold in enumerate(thresholds)]
    found = FilterPipeline(filters).apply(images, batch_size=batch_size)
    asked = [each.asked for each in filters]
    plain = [PixelFilter(column, threshold) for column, threshold in enumerate(thresholds)]
    scores, rejected_by = one_by_one(plain, images)
    assert np.array_equal(found.rejected_by, rejected_by)
    np.testing.assert_array_equal(found.scores, scores)
    assert np.array_equal(found.accepted, rejected_by == -1)
    # no filter is asked about what an earlier one has rejected
    assert asked == [each.asked for each in plain]


@given(cases(), st.sets(st.integers(0, 3)))
def test_what_is_known_is_not_asked_for_and_changes_nothing(
    case: tuple[torch.Tensor, list[float], int], columns: set[int]
) -> None:
    images, thresholds, batch_size = case
    filters = [PixelFilter(column, threshold) for column, threshold in enumerate(thresholds)]
    wanted = FilterPipeline(filters).apply(images, batch_size=batch_size)
    asked = [[] if column in columns else each.asked for column, each in enumerate(filters)]
    again = [PixelFilter(column, threshold) for column, threshold in enumerate(thresholds)]
    known = {f"pixel {column}": images[:, 0, 0, column].float().numpy() for column in columns}
    found = FilterPipeline(again).apply(images, known, batch_size=batch_size)
    assert np.array_equal(found.rejected_by, wanted.rejected_by)
    np.testing.assert_array_equal(found.scores, wanted.scores)
    assert [each.asked for each in again] == asked


def test_a_score_that_is_no_number_is_rejected() -> None:
    class Undecided(PixelFilter):
        def score(self, images: torch.Tensor, *, enough: float = math.inf) -> torch.Tensor:
            return torch.full((len(images),), math.nan)

    found = FilterPipeline([Undecided(0), PixelFilter(0)]).apply(torch.zeros(3, 1, 1, 1, dtype=torch.uint8))
    assert found.rejected_by.tolist() == [0, 0, 0]


def test_the_violation_is_zero_for_what_is_accepted_and_the_worst_filter_s_for_the_rest(parts: Any) -> None:
    """With the filter that saves work where a score is enough, against the scores in full."""
    images = torch.cat([parts.mixed, parts.noise, parts.held_out])
    chain = FilterPipeline([SsimFilter(neighbors=5), SsimFilter(neighbors=1)], false_alarm=0.1)
    chain.fit(parts.reference, parts.held_out)
    found, accepted = chain.violation(images), chain.apply(images).accepted
    assert accepted.any() and not accepted.all()
    scores = chain.scores(images)
    above = np.stack([scores[:, 0] - chain.filters[0].threshold, scores[:, 1] - chain.filters[1].threshold], axis=1)
    expected = np.maximum(-(above / np.maximum(chain.calibration.scores.std(axis=0), 1e-6)).min(axis=1), 0)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    sure = np.abs(above).min(axis=1) > 1e-5  # a decision may hang on the last digit
    assert np.array_equal(found[sure] == 0, accepted[sure])


def test_the_violation_of_a_score_that_is_no_number_is_infinite() -> None:
    class Undecided(PixelFilter):
        def score(self, images: torch.Tensor, *, enough: float = math.inf) -> torch.Tensor:
            return torch.full((len(images),), math.nan if self.fitted else 1.0)

        fitted = False

    undecided = Undecided(0)
    chain = FilterPipeline([PixelFilter(0), undecided])
    pixels = torch.zeros(3, 1, 1, 1, dtype=torch.uint8)
    chain.fit(pixels, pixels)
    undecided.fitted = True
    assert chain.violation(pixels).tolist() == [math.inf] * 3


def test_without_filters_nothing_is_violated() -> None:
    chain = FilterPipeline([])
    pixels = torch.zeros(3, 1, 1, 1, dtype=torch.uint8)
    chain.fit(pixels, pixels)
    assert chain.violation(pixels).tolist() == [0, 0, 0]
