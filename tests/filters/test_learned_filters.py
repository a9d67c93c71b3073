"""diffgen.filters.reconstruction and diffgen.filters.neighbors with really trained networks, against plain loops."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.errors import UserError
from diffgen.features import encoder as encoders
from diffgen.features import vae as vaes
from diffgen.filters import NeighborsFilter, ReconstructionFilter


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


@pytest.mark.parametrize(("store", "name"), [(vaes, "vae"), (encoders, "encoder")])
def test_networks_are_kept(learned: Learned, parts: Any, tmp_path: Path, store: Any, name: str) -> None:
    path, network = tmp_path / "kept.safetensors", getattr(learned, name)
    store.save(network, path)
    found = store.load(path, (1, 28, 28))
    call = "reconstruct" if name == "vae" else "encode"
    assert torch.equal(getattr(found, call)(parts.held_out), getattr(network, call)(parts.held_out))
    with pytest.raises(UserError, match="delete the file"):
        store.load(path, (3, 32, 32))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match="delete the file"):
        store.load(path, (1, 28, 28))
