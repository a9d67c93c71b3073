"""Contrast, brightness, patches, single pixels, noise: mutators that leave every pixel where it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from skimage.util import random_noise

from diffgen.techniques.mutation.mutator import Mutated, Mutator, by_choice, steps_of, to_bytes
from diffgen.types import UInt8Array

_PATCH = 2  # side of a patch


def contrast(least: float, most: float) -> Mutator:
    """Multiplies the grey levels of an image by a factor."""

    def apply(images: UInt8Array, rng: np.random.Generator) -> Mutated:
        factors = rng.uniform(least, most, (len(images), 1, 1, 1))
        return Mutated(to_bytes(images * factors), steps_of("contrast", len(images), factor=factors.ravel()))

    return apply


def brightness(most: float) -> Mutator:
    """Adds up to ``most`` grey levels, or takes them away."""

    def apply(images: UInt8Array, rng: np.random.Generator) -> Mutated:
        added = rng.uniform(-most, most, (len(images), 1, 1, 1))
        return Mutated(to_bytes(images + added), steps_of("brightness", len(images), levels=added.ravel()))

    return apply


def patch(kind: Literal["reverse", "white", "black"]) -> Mutator:
    """Reverses, whitens or blackens a square of 2 x 2 pixels."""

    def apply(images: UInt8Array, rng: np.random.Generator) -> Mutated:
        count, _, height, width = images.shape
        made = images.copy()
        rows = rng.integers(0, height - _PATCH + 1, count)
        columns = rng.integers(0, width - _PATCH + 1, count)
        for image, row, column in zip(made, rows, columns, strict=True):
            part = image[:, row : row + _PATCH, column : column + _PATCH]
            part[...] = 255 - part if kind == "reverse" else 255 if kind == "white" else 0
        return Mutated(made, steps_of(f"{kind}_patch", count, row=rows, column=columns))

    return apply


def pixels(most: int) -> Mutator:
    """Gives from 1 to ``most`` values (pixels of one channel) of an image random grey levels."""

    def apply(images: UInt8Array, rng: np.random.Generator) -> Mutated:
        made = images.reshape(len(images), -1).copy()
        numbers = rng.integers(1, most + 1, len(images))
        for values, number in zip(made, numbers, strict=True):
            values[rng.integers(0, len(values), number)] = rng.integers(0, 256, number, dtype=np.uint8)
        return Mutated(made.reshape(images.shape), steps_of("random_pixels", len(images), count=numbers))

    return apply


def _noise(images: UInt8Array, rng: np.random.Generator, **settings: Any) -> UInt8Array:
    noisy: NDArray[np.float64] = random_noise(images / 255.0, rng=rng, **settings)
    return to_bytes(noisy * 255.0)


def gaussian_noise(variances: Sequence[float]) -> Mutator:
    """Adds normal noise with one of these variances, in grey levels squared."""

    def apply(images: UInt8Array, rng: np.random.Generator) -> Mutated:
        return by_choice(
            images,
            rng.integers(0, len(variances), len(images)),
            lambda group, choice: Mutated(
                _noise(group, rng, mode="gaussian", var=variances[choice] / 255.0**2),
                steps_of("gaussian_noise", len(group), levels=variances[choice] ** 0.5),
            ),
        )

    return apply


def multiplicative_noise(variances: Sequence[float]) -> Mutator:
    """Adds to every value a normal share of itself, with one of these variances."""

    def apply(images: UInt8Array, rng: np.random.Generator) -> Mutated:
        return by_choice(
            images,
            rng.integers(0, len(variances), len(images)),
            lambda group, choice: Mutated(
                _noise(group, rng, mode="speckle", var=variances[choice]),
                steps_of("multiplicative_noise", len(group), share=variances[choice] ** 0.5),
            ),
        )

    return apply


def dimming_noise(mean: float, variance: float) -> Mutator:
    """Multiplicative noise whose mean, up to ``mean`` either way, and variance, up to ``variance``, are drawn."""

    def apply(images: UInt8Array, rng: np.random.Generator) -> Mutated:
        made, strengths = np.empty_like(images), np.empty((len(images), 2))
        for row, image in enumerate(images):
            strengths[row] = drawn = rng.uniform(-mean, mean), rng.uniform(0, variance)
            made[row] = _noise(image, rng, mode="speckle", mean=drawn[0], var=drawn[1])
        means, shares = strengths[:, 0], np.sqrt(strengths[:, 1])
        return Mutated(made, steps_of("multiplicative_noise", len(images), mean=means, share=shares))

    return apply


def salt_and_pepper(amount: float) -> Mutator:
    """Replaces this share of the values by white or black, half and half."""

    def apply(images: UInt8Array, rng: np.random.Generator) -> Mutated:
        made = _noise(images, rng, mode="s&p", amount=amount)
        return Mutated(made, steps_of("salt_and_pepper", len(images), share=amount))

    return apply
