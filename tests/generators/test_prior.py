"""Latent vectors for rates: no search draws the same, and classes are as frequent as in the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest
import torch

from diffgen.generators.prior import LatentStream, draw_latents


@dataclass
class Shape:
    """What is asked of a generator before it draws."""

    latent_dim: int = 5
    classes: int = 0
    prior: Literal["normal", "uniform"] = "normal"
    image_shape: tuple[int, int, int] = (1, 28, 28)

    def generate(self, latents: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


@pytest.mark.parametrize("prior", ["normal", "uniform"])
def test_no_seed_of_a_search_gives_the_stream(prior: Literal["normal", "uniform"]) -> None:
    shape = Shape(prior=prior)
    drawn = {row.numpy().tobytes() for row in LatentStream(shape, seed=3, labels=None).draw(500)}
    assert len(drawn) == 500
    for seed in (0, 3, 2**32 + 3, 2**63 + 3):
        searched = draw_latents(shape, 500, torch.Generator().manual_seed(seed))
        assert not drawn & {row.numpy().tobytes() for row in searched}


@pytest.mark.parametrize("prior", ["normal", "uniform"])
def test_the_stream_is_the_prior_and_depends_on_the_seed_alone(prior: Literal["normal", "uniform"]) -> None:
    shape = Shape(prior=prior, classes=3)
    whole = LatentStream(shape, seed=7, labels=None).draw(4000)
    parts = LatentStream(shape, seed=7, labels=None)
    assert torch.equal(whole, torch.cat([parts.draw(count) for count in (1, 999, 3000)]))
    assert not torch.equal(whole, LatentStream(shape, seed=8, labels=None).draw(4000))
    values = whole[:, :5]
    assert whole.dtype == torch.float32 and whole.shape == (4000, 6)
    assert abs(float(values.mean())) < 0.03
    assert float(values.std()) == pytest.approx(1.0 if prior == "normal" else 1 / np.sqrt(3), abs=0.02)
    if prior == "uniform":
        assert float(values.min()) >= -1 and float(values.max()) < 1


def test_classes_are_as_frequent_as_in_the_data() -> None:
    labels = np.repeat(np.arange(4), [900, 0, 80, 20])
    drawn = LatentStream(Shape(classes=5), seed=0, labels=labels).draw(20_000)[:, -1].numpy().astype(int)
    shares = np.bincount(drawn, minlength=5) / len(drawn)
    np.testing.assert_allclose(shares, [0.9, 0, 0.08, 0.02, 0], atol=0.01)
    assert shares[1] == shares[4] == 0
    evenly = LatentStream(Shape(classes=5), seed=0, labels=None).draw(20_000)[:, -1].numpy().astype(int)
    np.testing.assert_allclose(np.bincount(evenly) / 20_000, 0.2, atol=0.01)


def test_a_class_is_as_frequent_as_the_label_that_it_stands_for() -> None:
    labels = np.repeat([3, 7], [300, 100])
    drawn = LatentStream(Shape(classes=2), seed=0, labels=labels, class_labels=(3, 7)).draw(20_000)[:, -1].numpy()
    assert drawn.mean() == pytest.approx(0.25, abs=0.01)
