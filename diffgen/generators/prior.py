"""Latent vectors from the distribution that a generator was trained with."""

from __future__ import annotations

import numpy as np
import torch

from diffgen.types import Generator, Int64Array

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


class LatentStream:
    """Latent vectors from the prior that no search draws, whatever its seed, with classes as frequent as in the data.

    A search draws with torch's generator, which on the CPU looks at 32 bits of a seed only, so that two seeds may mean
    one stream. This one draws with numpy's PCG64, seeded through ``SeedSequence``. Values and classes have streams of
    their own: how many are drawn at once changes nothing.

    Args:
        generator: whose prior it is.
        seed: 0 or more.
        labels: int64 (N,) of the data, or None: all classes of a conditional generator are equally frequent.
        class_labels: the label that each class of the generator stands for; empty: its own number.
    """

    def __init__(
        self, generator: Generator, *, seed: int, labels: Int64Array | None, class_labels: tuple[int, ...] = ()
    ) -> None:
        self._generator = generator
        values, classes = np.random.SeedSequence(seed).spawn(2)
        self._values, self._classes = np.random.default_rng(values), np.random.default_rng(classes)
        counts = np.ones(generator.classes)
        if labels is not None:
            stands_for = class_labels or range(generator.classes)
            counts = np.array([(labels == label).sum() for label in stands_for], dtype=np.float64)
        self._bounds = np.cumsum(counts / max(counts.sum(), 1.0))

    def draw(self, count: int) -> torch.Tensor:
        """The next ``count``: float32 (count, latent_length), the class in the last column where there is one."""
        generator = self._generator
        shape = (count, generator.latent_dim)
        if generator.prior == "normal":
            values = self._values.standard_normal(shape, dtype=np.float32)
        else:
            values = (self._values.random(shape, dtype=np.float32) * 2 - 1) * np.float32(UNIFORM_BOUND)
        if generator.classes == 0:
            return torch.from_numpy(values)
        # side "right": a class without images has an interval of no length, which no number lies in
        classes = np.searchsorted(self._bounds[:-1], self._classes.random(count), side="right")
        return torch.from_numpy(np.column_stack([values, classes.astype(np.float32)]))
