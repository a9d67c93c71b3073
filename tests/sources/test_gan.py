"""diffgen.sources.gan"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.config import GanConfig
from diffgen.data import load as load_data
from diffgen.errors import UserError
from diffgen.gan_training import checkpoint
from diffgen.gan_training.networks import to_uint8
from diffgen.gan_training.trainer import TrainedGan, train
from diffgen.sources.gan import DiscriminatorScorer, GanSource, load

CPU = torch.device("cpu")
LATENT_DIM = 16


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.from_numpy(load_data("digits:test").images)


@pytest.fixture(scope="module")
def trained(images: torch.Tensor) -> TrainedGan:
    return train(images, GanConfig(latent_dim=LATENT_DIM, width=8, steps=60, batch_size=32))


@pytest.fixture(scope="module")
def generator(trained: TrainedGan) -> GanSource:
    return GanSource(trained.generator, device=CPU)


def latents(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, LATENT_DIM, generator=torch.Generator().manual_seed(seed))


def assert_same_images(a: torch.Tensor, b: torch.Tensor) -> None:
    """Apart from one grey level in one of 10,000 pixels, which matrix products in another order can round away."""
    difference = (a.int() - b.int()).abs()
    assert difference.max() <= 1
    assert (difference > 0).sum() <= difference.numel() / 10_000


def test_what_it_makes(generator: GanSource) -> None:
    found = generator.draw(latents(5))
    assert (generator.space.length, generator.image_shape) == (LATENT_DIM, (1, 28, 28))
    assert found.shape == (5, 1, 28, 28)
    assert found.dtype == torch.uint8
    assert len(found.flatten(1).unique(dim=0)) == 5
    assert found.max() > 100


def test_the_same_as_the_network_rounded_by_hand(generator: GanSource, trained: TrainedGan) -> None:
    with torch.no_grad():
        plain = trained.generator(latents(20)).double().numpy()
    expected = np.clip(np.rint((plain + 1) * 127.5), 0, 255)
    assert_same_images(generator.draw(latents(20)), torch.from_numpy(expected))


def test_an_image_does_not_depend_on_its_neighbours(generator: GanSource) -> None:
    """Neighbours as different as they can be: the very far ones would drag the mean of a batch along."""
    vectors = latents(64)
    alone = generator.draw(vectors)
    for neighbours in (torch.zeros(64, LATENT_DIM), 100 * latents(64, seed=2), vectors.roll(1, 0)):
        mixed = torch.stack([vectors, neighbours], dim=1).flatten(0, 1)
        assert_same_images(generator.draw(mixed)[::2], alone)


def test_a_network_in_training_mode_is_taken_out_of_it(trained: TrainedGan) -> None:
    trained.generator.train()
    trained.discriminator.train()
    try:
        made = GanSource(trained.generator, device=CPU).draw(latents(4))
        assert_same_images(made, GanSource(trained.generator, device=CPU).draw(latents(8))[:4])
        DiscriminatorScorer(trained.discriminator, device=CPU)
        assert not any(module.training for module in trained.discriminator.modules())
    finally:
        trained.generator.eval()
        trained.discriminator.eval()


def test_nothing_asked_nothing_made(generator: GanSource, trained: TrainedGan) -> None:
    none = generator.draw(torch.empty(0, LATENT_DIM))
    assert none.shape == (0, 1, 28, 28)
    assert none.dtype == torch.uint8
    assert DiscriminatorScorer(trained.discriminator, device=CPU).score(none).shape == (0,)


def test_scores(trained: TrainedGan, images: torch.Tensor) -> None:
    scorer = DiscriminatorScorer(trained.discriminator, device=CPU)
    before = images[:50].clone()
    found = scorer.score(images[:50])
    assert found.shape == (50,)
    assert found.dtype == torch.float32
    assert torch.equal(images[:50], before)
    with torch.no_grad():
        by_hand = torch.cat([trained.discriminator(image[None].float() / 127.5 - 1) for image in images[:50]])
    torch.testing.assert_close(found.clone(), by_hand, rtol=0, atol=1e-4)


def test_loading_a_checkpoint(trained: TrainedGan, images: torch.Tensor, tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "gan", trained, width=8, about={"data": "digest"})
    generator, scorer, stored = load(tmp_path / "gan", device=CPU)
    assert scorer is not None
    with torch.no_grad():
        assert torch.equal(generator.draw(latents(8)), to_uint8(trained.generator(latents(8))))
    assert torch.equal(
        scorer.score(images[:8]), DiscriminatorScorer(trained.discriminator, device=CPU).score(images[:8])
    )
    assert stored.header["data"] == "digest"


def test_loading_what_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "gan").write_bytes(b"no")
    with pytest.raises(UserError, match="cannot be read"):
        load(tmp_path / "gan", device=CPU)
