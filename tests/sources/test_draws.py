"""Streams that a space samples from: no search draws the unsearched one, and classes are as frequent as in the data."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch

from diffgen.sources.draws import UnsearchedDraws
from diffgen.sources.space import Genes, WithClass, latent_space, random_genes

Prior = Literal["normal", "uniform"]


def rows(genes: Genes) -> set[bytes]:
    return {row.tobytes() for row in genes}


@pytest.mark.parametrize("prior", ["normal", "uniform"])
def test_no_seed_of_a_search_gives_the_stream(prior: Prior) -> None:
    space = latent_space(5, prior)
    drawn = rows(space.sample(500, UnsearchedDraws(3)))
    assert len(drawn) == 500
    for seed in (0, 3, 2**32 + 3, 2**63 + 3):
        assert not drawn & rows(random_genes(space, 500, torch.Generator().manual_seed(seed)).numpy())


@pytest.mark.parametrize("prior", ["normal", "uniform"])
def test_the_stream_is_the_prior_and_depends_on_the_seed_alone(prior: Prior) -> None:
    space = latent_space(5, prior, classes=3)
    whole = space.sample(4000, UnsearchedDraws(7))
    parts = UnsearchedDraws(7)
    assert np.array_equal(whole, np.concatenate([space.sample(count, parts) for count in (1, 999, 3000)]))
    assert not np.array_equal(whole, space.sample(4000, UnsearchedDraws(8)))
    values = whole[:, :5]
    assert whole.dtype == np.float32 and whole.shape == (4000, 6)
    assert abs(float(values.mean())) < 0.03
    assert float(values.std()) == pytest.approx(1.0 if prior == "normal" else 1 / np.sqrt(3), abs=0.02)
    if prior == "uniform":
        assert float(values.min()) >= -1 and float(values.max()) < 1


def classes_drawn(space: WithClass, labels: np.ndarray | None) -> np.ndarray:
    draws = UnsearchedDraws(0, space.frequencies(labels))
    return np.bincount(space.sample(20_000, draws)[:, -1].astype(int), minlength=space.categories[0]) / 20_000


def test_classes_are_as_frequent_as_in_the_data() -> None:
    space = latent_space(5, "normal", classes=5)
    assert isinstance(space, WithClass)
    shares = classes_drawn(space, np.repeat(np.arange(4), [900, 0, 80, 20]))
    np.testing.assert_allclose(shares, [0.9, 0, 0.08, 0.02, 0], atol=0.01)
    assert shares[1] == shares[4] == 0
    np.testing.assert_allclose(classes_drawn(space, None), 0.2, atol=0.01)


def test_a_class_is_as_frequent_as_the_label_that_it_stands_for() -> None:
    space = latent_space(5, "normal", classes=2, labels=(3, 7))
    assert isinstance(space, WithClass)
    assert classes_drawn(space, np.repeat([3, 7], [300, 100]))[1] == pytest.approx(0.25, abs=0.01)
