"""diffgen.filters.discriminator"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.filters import DiscriminatorFilter


def one_by_one(parts: Any, images: torch.Tensor) -> np.ndarray:
    return np.array([parts.scorer.score(image[None]).item() for image in images])


@pytest.mark.parametrize("false_alarm", [0.0, 0.05, 0.37, 1.0])
def test_the_threshold_is_a_quantile_of_the_held_out_scores(parts: Any, false_alarm: float) -> None:
    judge = DiscriminatorFilter(parts.scorer, false_alarm=false_alarm)
    assert math.isnan(judge.threshold)
    judge.fit(parts.reference, parts.held_out)
    scores = one_by_one(parts, parts.held_out)
    assert abs(judge.threshold - np.quantile(scores, false_alarm)) < 1e-4
    rejected = (judge.score(parts.held_out) < judge.threshold).float().mean()
    assert abs(rejected - false_alarm) < 1.01 / len(parts.held_out)


def test_the_images_of_the_training_play_no_part_in_it(parts: Any) -> None:
    thresholds = []
    for reference in (parts.reference, parts.noise, parts.reference[:0]):
        judge = DiscriminatorFilter(parts.scorer)
        judge.fit(reference, parts.held_out)
        thresholds.append(judge.threshold)
    assert len(set(thresholds)) == 1


def test_one_held_out_image_is_enough(parts: Any) -> None:
    judge = DiscriminatorFilter(parts.scorer)
    judge.fit(parts.reference, parts.held_out[:1])
    assert judge.threshold == pytest.approx(one_by_one(parts, parts.held_out[:1])[0], abs=1e-5)


@pytest.mark.parametrize("threshold", [-3.5, 0.0, 7.0])
def test_a_given_threshold_is_kept(parts: Any, threshold: float) -> None:
    judge = DiscriminatorFilter(parts.scorer, threshold=threshold)
    assert judge.threshold == threshold
    judge.fit(parts.reference, parts.held_out)
    assert judge.threshold == threshold
    assert "given by the user" in judge.description


def test_a_found_threshold_says_where_it_comes_from(parts: Any) -> None:
    judge = DiscriminatorFilter(parts.scorer, false_alarm=0.1)
    judge.fit(parts.reference, parts.held_out)
    assert "10%" in judge.description
    assert f"{len(parts.held_out)} held-out" in judge.description


@pytest.mark.parametrize("batch_size", [1, 7, 25, 99, 100, 101, 256])
def test_scores_do_not_depend_on_the_batch_size(parts: Any, batch_size: int) -> None:
    found = DiscriminatorFilter(parts.scorer, batch_size=batch_size).score(parts.mixed)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, one_by_one(parts, parts.mixed), rtol=0, atol=1e-5)


def test_noise_is_rejected_and_real_images_are_not(parts: Any) -> None:
    judge = DiscriminatorFilter(parts.scorer)
    judge.fit(parts.reference, parts.held_out)
    assert (judge.score(parts.noise) < judge.threshold).float().mean() > 0.95
    assert (judge.score(parts.reference) >= judge.threshold).float().mean() > 0.85


def test_nothing_asked(parts: Any) -> None:
    found = DiscriminatorFilter(parts.scorer).score(parts.noise[:0])
    assert (found.shape, found.dtype) == ((0,), torch.float32)
