"""The jury as a filter of real digits."""

from __future__ import annotations

import math

import numpy as np
import torch

from diffgen.data import load
from diffgen.features import jury as juries
from diffgen.features.jury import Recogniser, certainty
from diffgen.filters import FilterPipeline, RecognitionFilter


def _digits() -> tuple[torch.Tensor, torch.Tensor]:
    data = load("digits:test")
    assert data.labels is not None
    return torch.from_numpy(data.images), torch.from_numpy(data.labels)


def test_a_score_is_the_certainty_of_the_jury() -> None:
    images, labels = _digits()
    jury = juries.train(images[:600], labels[:600], shown=1_500)
    judge = RecognitionFilter(Recogniser(jury, threshold=0.0), batch_size=7)
    pipeline = FilterPipeline([judge], false_alarm=0.1)
    pipeline.fit(images[:600], images[600:])
    assert math.isfinite(judge.threshold)
    expected = certainty(jury.answers(images[600:]))
    np.testing.assert_allclose(judge.score(images[600:]).numpy(), expected, atol=1e-5)
    noise = torch.randint(0, 256, (100, *images.shape[1:]), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
    assert pipeline.apply(noise).accepted.mean() < pipeline.apply(images[600:]).accepted.mean()
