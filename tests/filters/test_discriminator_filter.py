"""diffgen.filters.discriminator"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.filters import DiscriminatorFilter, FilterPipeline


def one_by_one(parts: Any, images: torch.Tensor) -> np.ndarray:
    return np.array([parts.scorer.score(image[None]).item() for image in images])


@pytest.mark.parametrize("threshold", [-3.5, 0.0, 7.0])
def test_a_given_threshold_is_kept(parts: Any, threshold: float) -> None:
    judge = DiscriminatorFilter(parts.scorer, threshold=threshold)
    FilterPipeline([judge]).fit(parts.reference, parts.held_out)
    assert judge.threshold == threshold


@pytest.mark.parametrize("false_alarm", [0.0, 0.05, 0.37])
def test_a_threshold_that_is_found_leaves_the_stated_share_below(parts: Any, false_alarm: float) -> None:
    judge = DiscriminatorFilter(parts.scorer)
    assert math.isnan(judge.threshold)
    FilterPipeline([judge], false_alarm=false_alarm).fit(parts.reference, parts.held_out)
    scores = one_by_one(parts, parts.held_out)
    assert abs(judge.threshold - np.sort(scores)[int(false_alarm * len(scores))]) < 1e-4
    assert (scores < judge.threshold - 1e-4).mean() <= false_alarm


@pytest.mark.parametrize("batch_size", [1, 7, 25, 99, 100, 101, 256])
def test_scores_do_not_depend_on_the_batch_size(parts: Any, batch_size: int) -> None:
    found = DiscriminatorFilter(parts.scorer, batch_size=batch_size).score(parts.mixed)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, one_by_one(parts, parts.mixed), rtol=0, atol=1e-5)
