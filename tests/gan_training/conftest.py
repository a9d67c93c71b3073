"""Real digits, and a GAN that was really trained on them, if only for a moment."""

from __future__ import annotations

import pytest
import torch

from diffgen.config import GanConfig
from diffgen.data import load
from diffgen.gan_training.trainer import TrainedGan, train
from diffgen.types import ImageSet


@pytest.fixture(scope="session")
def digits() -> ImageSet:
    return load("digits:test")


@pytest.fixture(scope="session")
def images(digits: ImageSet) -> torch.Tensor:
    return torch.from_numpy(digits.images)


@pytest.fixture(scope="session")
def gan_config() -> GanConfig:
    """Learns something within 60 steps: larger learning rates than the defaults, a shorter average."""
    return GanConfig(
        latent_dim=16,
        width=8,
        steps=60,
        batch_size=32,
        learning_rate_generator=1e-3,
        learning_rate_discriminator=2e-3,
        ema_decay=0.9,
        seed=3,
    )


@pytest.fixture(scope="session")
def trained(images: torch.Tensor, gan_config: GanConfig) -> TrainedGan:
    return train(images, gan_config)
