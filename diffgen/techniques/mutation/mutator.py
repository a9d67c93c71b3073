"""What a mutator is, and many of them at work on one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffgen.origins import Step
from diffgen.types import Int64Array, UInt8Array


@dataclass(frozen=True)
class Mutated:
    """N mutants.

    Attributes:
        images: uint8 (N, C, H, W).
        steps: how each was made from its image, with the strengths that were drawn.
    """

    images: UInt8Array
    steps: tuple[Step, ...]


Mutator = Callable[[UInt8Array, np.random.Generator], Mutated]


def steps_of(operator: str, count: int, /, **strengths: ArrayLike) -> tuple[Step, ...]:
    """``count`` steps of one operator; each strength is one number for all, or one for each."""
    columns = [np.broadcast_to(values, (count,)).tolist() for values in strengths.values()]
    rows = zip(*columns, strict=True) if columns else [()] * count
    return tuple(Step(operator, tuple(zip(strengths, row, strict=True))) for row in rows)


def to_bytes(images: NDArray[Any]) -> UInt8Array:
    """Grey levels as bytes: rounded, and cut to 0..255."""
    return np.asarray(np.rint(images).clip(0, 255), dtype=np.uint8)


def by_choice(images: UInt8Array, choices: Int64Array, apply: Callable[[UInt8Array, int], Mutated]) -> Mutated:
    """``apply(images, choice)`` of each group of images with the same choice, int64 (N,), put together again."""
    made = np.empty_like(images)
    steps: list[Step] = [Step("")] * len(images)
    for choice in np.unique(choices).tolist():
        rows = np.flatnonzero(choices == choice)
        group = apply(images[rows], choice)
        made[rows] = group.images
        for row, step in zip(rows.tolist(), group.steps, strict=True):
            steps[row] = step
    return Mutated(made, tuple(steps))


def mutate(images: UInt8Array, which: Int64Array, mutators: Sequence[Mutator], rng: np.random.Generator) -> Mutated:
    """Mutate each image, uint8 (N, C, H, W), by the mutator of its number, int64 (N,)."""
    return by_choice(images, which, lambda group, number: mutators[number](group, rng))
