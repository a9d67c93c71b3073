"""Latent vectors from the distribution that a generator was trained with."""

from __future__ import annotations

import torch

from diffgen.types import Generator

UNIFORM_BOUND = 1.0  # a uniform prior is U(-1, 1)


def latent_length(generator: Generator) -> int:
    """Values in one stored latent vector: ``latent_dim``, and one more for the class of a conditional generator."""
    return generator.latent_dim + (generator.classes > 0)


def draw_latents(generator: Generator, count: int, rng: torch.Generator) -> torch.Tensor:
    """Latent vectors from the prior, classes uniformly.

    Returns:
        float32 (count, latent_length); the last column of a conditional generator holds the class.
    """
    if generator.prior == "normal":
        values = torch.randn(count, generator.latent_dim, generator=rng)
    else:
        values = torch.rand(count, generator.latent_dim, generator=rng).mul_(2).sub_(1).mul_(UNIFORM_BOUND)
    if generator.classes == 0:
        return values
    classes = torch.randint(generator.classes, (count, 1), generator=rng)
    return torch.cat([values, classes.to(torch.float32)], dim=1)
