"""Real digits, and a GAN that was really trained on most of them, if only for a moment."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from diffgen.config import GanConfig, SplitConfig
from diffgen.data import load
from diffgen.data.split import split_rows
from diffgen.gan_training.trainer import train
from diffgen.sources.gan import DiscriminatorScorer, GanSource


@dataclass(frozen=True)
class Parts:
    """What filters are made of and asked about; images are uint8 (N, 1, 28, 28)."""

    scorer: DiscriminatorScorer
    reference: torch.Tensor
    held_out: torch.Tensor
    made: torch.Tensor
    noise: torch.Tensor

    @property
    def mixed(self) -> torch.Tensor:
        """Some of everything, one after the other."""
        parts = (self.held_out[:25], self.made[:25], self.noise[:25], self.reference[:25])
        return torch.stack(parts, dim=1).flatten(0, 1)


@pytest.fixture(scope="session")
def parts() -> Parts:
    images = torch.from_numpy(load("digits:test").images)
    config = GanConfig(
        latent_dim=16,
        width=8,
        steps=60,
        batch_size=32,
        learning_rate_generator=1e-3,
        learning_rate_discriminator=2e-3,
        ema_decay=0.9,
    )
    training, held_out = split_rows(len(images), SplitConfig())
    trained = train(images[training], config)
    rng = torch.Generator().manual_seed(0)
    generator = GanSource(trained.generator, device=torch.device("cpu"))
    return Parts(
        scorer=DiscriminatorScorer(trained.discriminator, device=torch.device("cpu")),
        reference=images[training],
        held_out=images[held_out],
        made=generator.draw(torch.randn(100, 16, generator=rng)),
        noise=torch.randint(256, (100, 1, 28, 28), generator=rng, dtype=torch.uint8),
    )
