"""What a mutator is, and many of them at work on one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffgen.types import Int64Array, UInt8Array

Mutator = Callable[[UInt8Array, np.random.Generator], UInt8Array]


def to_bytes(images: NDArray[Any]) -> UInt8Array:
    """Grey levels as bytes: rounded, and cut to 0..255."""
    return np.asarray(np.rint(images).clip(0, 255), dtype=np.uint8)


def by_choice(images: UInt8Array, choices: Int64Array, apply: Callable[[UInt8Array, int], UInt8Array]) -> UInt8Array:
    """``apply(images, choice)`` of each group of images with the same choice, int64 (N,), put together again."""
    made = np.empty_like(images)
    for choice in np.unique(choices).tolist():
        rows = choices == choice
        made[rows] = apply(images[rows], choice)
    return made


def mutate(images: UInt8Array, which: Int64Array, mutators: Sequence[Mutator], rng: np.random.Generator) -> UInt8Array:
    """Mutate each image, uint8 (N, C, H, W), by the mutator of its number, int64 (N,)."""
    return by_choice(images, which, lambda group, number: mutators[number](group, rng))
