"""The filter that learns from answers, on real digits and pictures that nobody can name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from diffgen.errors import UserError
from diffgen.filters import FilterPipeline, LearnedFilter, NeighborsFilter, SsimFilter


@pytest.fixture(scope="module")
def answered(parts: Any) -> tuple[torch.Tensor, np.ndarray]:
    """Real digits, some with a bright corner, which are valid; fragments and noise, which are not."""
    real = parts.reference[:120].clone()
    real[:30, :, :6, :6] = 255
    cut = parts.reference[120:180].clone()
    cut[:, :, 8:] = 0
    return torch.cat([real, cut, parts.noise[:20]]), np.repeat([True, False], [120, 80])


def test_it_says_what_the_answers_say(parts: Any, answered: tuple[torch.Tensor, np.ndarray]) -> None:
    images, valid = answered
    learned = LearnedFilter([SsimFilter(), NeighborsFilter()], images, valid)
    with pytest.raises(RuntimeError, match="fit"):
        learned.score(images)
    pipeline = FilterPipeline([learned], false_alarm=0.05)
    pipeline.fit(parts.reference, parts.held_out)
    assert learned.threshold == 0
    others = parts.held_out.clone()
    others[:, :, 8:] = 0
    assert pipeline.apply(parts.held_out).accepted.mean() > 0.9
    assert pipeline.apply(others).accepted.mean() < 0.2
    assert "200 answers of people (120 valid) and the scores ssim, neighbors" in learned.description
    together, apart = learned.score(images), torch.cat([learned.score(each) for each in images.split(7)])
    torch.testing.assert_close(together, apart, rtol=0, atol=1e-3)


class OfStrokes:
    """A filter that says nothing of pictures without any bright pixel, as a generator's own discriminator may."""

    name, description, threshold = "strokes", "How much of it is bright.", float("nan")

    def fit(self, real: torch.Tensor) -> None:
        """Nothing."""

    def score(self, images: torch.Tensor, *, enough: float = float("inf")) -> torch.Tensor:
        bright = (images > 200).float().mean(dim=(1, 2, 3))
        return torch.where(bright == 0, torch.nan, bright)


def test_what_another_filter_gives_no_number_has_none(parts: Any, answered: tuple[torch.Tensor, np.ndarray]) -> None:
    images, valid = answered
    dark = images // 2
    learned = LearnedFilter([NeighborsFilter(), OfStrokes()], torch.cat([images, dark[:10]]), np.r_[valid, valid[:10]])
    pipeline = FilterPipeline([learned], false_alarm=0.05)
    pipeline.fit(parts.reference, parts.held_out)
    known = LearnedFilter([NeighborsFilter(), OfStrokes()], images, valid)
    known.fit(parts.reference)
    mixed = torch.cat([parts.held_out[:10], dark[:3]])
    assert torch.isnan(learned.score(mixed)).tolist() == [False] * 10 + [True] * 3
    assert np.isinf(pipeline.violation(mixed)).tolist() == [False] * 10 + [True] * 3
    torch.testing.assert_close(learned.score(mixed[:10]), known.score(mixed[:10]))
    with pytest.raises(UserError, match="0 of them invalid"):
        LearnedFilter([OfStrokes()], torch.cat([images[:120], dark[120:]]), valid).fit(parts.reference)


@pytest.mark.parametrize(
    ("valid", "words"), [(np.ones(200, bool), "0 of them invalid"), (np.arange(60) % 2 == 0, "60")]
)
def test_too_few_answers_are_refused(answered: tuple[torch.Tensor, np.ndarray], valid: np.ndarray, words: str) -> None:
    with pytest.raises(UserError, match=words):
        LearnedFilter([NeighborsFilter()], answered[0][: len(valid)], valid)
