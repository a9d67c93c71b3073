"""diffgen.filters.reconstruction and diffgen.filters.neighbors with really trained networks, against plain loops."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.data import load
from diffgen.errors import UserError
from diffgen.features import encoder as encoders
from diffgen.features import jury as juries
from diffgen.features import vae as vaes
from diffgen.features.jury import Recogniser, certainty
from diffgen.filters import (
    DiscriminatorFilter,
    FilterPipeline,
    NeighborsFilter,
    RecognitionFilter,
    ReconstructionFilter,
)
from diffgen.runs.artifacts import read_network, write_tensors


@dataclass(frozen=True)
class Learned:
    reconstruction: ReconstructionFilter
    neighbors: NeighborsFilter
    vae: vaes.Vae
    encoder: encoders.DomainEncoder


@pytest.fixture(scope="module")
def learned(parts: Any) -> Learned:
    vae = vaes.train(parts.reference, steps=150, seed=0)
    encoder = encoders.train(parts.reference[:300], None, seed=0)
    reconstruction = ReconstructionFilter(lambda real: vae)
    neighbors = NeighborsFilter(neighbors=3)
    reconstruction.fit(parts.reference)
    neighbors.fit(parts.reference)
    return Learned(reconstruction, neighbors, vae, encoder)


def test_the_error_equals_a_plain_loop(parts: Any, learned: Learned) -> None:
    scores = learned.reconstruction.score(parts.mixed)
    assert (scores.dtype, scores.shape) == (torch.float32, (100,))
    for image, score in zip(parts.mixed, scores.tolist(), strict=True):
        target = image.numpy().astype(float) / 255
        drawn = learned.vae.reconstruct(image[None])[0].numpy().astype(float)
        assert score == pytest.approx(-((target - drawn) ** 2).sum() / (target**2).sum(), abs=1e-4)


def test_nearness_equals_a_plain_loop(parts: Any, learned: Learned) -> None:
    scores = learned.neighbors.score(parts.mixed)
    real = parts.reference.numpy().astype(float) / 255  # the edges of the digits are black: so is the background
    for image, score in zip(parts.mixed, scores.tolist(), strict=True):
        own = image.numpy().astype(float) / 255
        distances = sorted(np.sqrt(((own - each) ** 2).sum()) for each in real)
        assert score == pytest.approx(1 - np.mean(distances[:3]) / np.sqrt((own**2).sum()), abs=1e-3)


def test_a_picture_is_as_near_on_white_paper_as_on_black(parts: Any, learned: Learned) -> None:
    white = NeighborsFilter(neighbors=3)
    white.fit(255 - parts.reference)
    torch.testing.assert_close(white.score(255 - parts.mixed), learned.neighbors.score(parts.mixed), rtol=0, atol=1e-3)


def test_faint_remains_of_a_digit_are_not_near(parts: Any, learned: Learned) -> None:
    lowest = learned.neighbors.score(parts.held_out).quantile(0.05)
    remains = parts.held_out.clone()
    remains[:, :, :, :18] = 0
    for wrecked in (parts.noise, remains // 4, torch.full_like(remains, 3)):
        assert (learned.neighbors.score(wrecked) < lowest).float().mean() > 0.9


@pytest.mark.parametrize("name", ["reconstruction", "neighbors"])
def test_scores_do_not_depend_on_the_other_images(parts: Any, learned: Learned, name: str) -> None:
    judge = getattr(learned, name)
    together = judge.score(parts.mixed)
    apart = torch.cat([judge.score(batch) for batch in parts.mixed.split(7)])
    torch.testing.assert_close(together, apart, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["reconstruction", "neighbors"])
@pytest.mark.parametrize("level", [0, 128, 255])
def test_blank_images_have_a_score(learned: Learned, name: str, level: int) -> None:
    blank = torch.full((2, 1, 28, 28), level, dtype=torch.uint8)
    assert torch.isfinite(getattr(learned, name).score(blank)).all()


def test_asking_before_fitting_is_a_mistake_in_the_program(parts: Any, learned: Learned) -> None:
    for judge in (ReconstructionFilter(lambda real: learned.vae), NeighborsFilter()):
        with pytest.raises(RuntimeError, match="fit"):
            judge.score(parts.noise)


def test_training_is_repeatable_and_leaves_the_random_state_alone(parts: Any) -> None:
    before = torch.random.get_rng_state()
    first, second, other = (vaes.train(parts.reference[:200], steps=3, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(before, torch.random.get_rng_state())
    images = parts.held_out[:5]
    assert torch.equal(first.reconstruct(images), second.reconstruct(images))
    assert not torch.equal(first.reconstruct(images), other.reconstruct(images))


@pytest.mark.parametrize(("kind", "name"), [(vaes.Vae, "vae"), (encoders.DomainEncoder, "encoder")])
def test_networks_are_kept(learned: Learned, parts: Any, tmp_path: Path, kind: type[Any], name: str) -> None:
    path, network = tmp_path / "kept.safetensors", getattr(learned, name)
    write_tensors(path, network.state_dict())

    def read(shape: tuple[int, int, int]) -> Any:
        return read_network(partial(kind, shape), path, "The network", device="cpu")

    call = "reconstruct" if name == "vae" else "encode"
    assert torch.equal(getattr(read((1, 28, 28)), call)(parts.held_out), getattr(network, call)(parts.held_out))
    with pytest.raises(UserError, match="delete the file"):
        read((3, 32, 32))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match="delete the file"):
        read((1, 28, 28))


# -- the jury as a filter of real digits --


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


# -- diffgen.filters.discriminator --


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
