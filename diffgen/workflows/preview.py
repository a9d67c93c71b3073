"""A look at real images before anything is started with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from diffgen.comparison.real_data import load_stored
from diffgen.config import CompareConfig
from diffgen.events import Listener, Progress, StopToken
from diffgen.numerics import own_numerics
from diffgen.sampling import random_rows
from diffgen.types import ImageSet, Int64Array, UInt8Array


@dataclass(frozen=True, eq=False)
class Preview:
    """What some real images look like.

    Attributes:
        source: where they came from.
        count: how many there are.
        shape: (C, H, W).
        class_names: in label order, or empty.
        per_class: how many of each class, or empty: they have no labels.
        images: uint8 (n, C, H, W), some of them, of each class about as many.
        labels: int64 (n,), theirs, or None.
    """

    source: str
    count: int
    shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    per_class: tuple[int, ...]
    images: UInt8Array
    labels: Int64Array | None


@own_numerics()
def preview(
    data: Any,
    *,
    count: int = 40,
    config: CompareConfig | None = None,
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> Preview:
    """Read real images and show some of them, drawn at random, always the same.

    Args:
        data: see :func:`diffgen.data.load`.
        count: how many are shown at most.
        config: how they are read (``resize``, ``fit``, ``skip_broken``, ``exif``).
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: they cannot be used.
    """
    images: ImageSet = load_stored(data, config or CompareConfig(), Progress(events, stop))
    labels = images.labels
    rows = random_rows(len(images), min(len(images), 50 * count), seed=0)
    if labels is not None:
        rows = rows[_in_turns(labels[rows])]
    rows = rows[:count]
    names = images.class_names or ()
    counts = () if labels is None else tuple(np.bincount(labels, minlength=len(names)).tolist())
    return Preview(
        images.source,
        len(images),
        images.image_shape,
        tuple(names),
        counts,
        np.asarray(images.images[rows]),
        None if labels is None else labels[rows],
    )


def _in_turns(labels: Int64Array) -> Int64Array:
    """An order in which each class has its first image before any has its second."""
    turn = np.zeros(len(labels), dtype=np.int64)
    for label in np.unique(labels).tolist():
        own = labels == label
        turn[own] = np.arange(int(own.sum()))
    return np.lexsort((labels, turn)).astype(np.int64)
