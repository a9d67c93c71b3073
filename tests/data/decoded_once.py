"""Sets of images read in memory and through the cache, and whether the two are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from diffgen.data import load, picture_stack
from diffgen.data.decoded import ImageMap
from diffgen.types import ImageSet


def in_both_ways(source: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[ImageSet, ImageSet]:
    """The set as it is in memory, and as it is in the cache."""
    in_memory = load(source, **options)
    with monkeypatch.context() as patched:
        patched.setattr(picture_stack, "LARGE_BYTES", 1000)
        return in_memory, load(source, **options)


def check_alike(one: ImageSet, other: ImageSet) -> None:
    assert not isinstance(one.images, np.memmap)
    assert isinstance(other.images, ImageMap)
    assert not other.images.flags.writeable
    assert np.array_equal(one.images, other.images)
    assert one.digest == other.digest
    assert one.class_names == other.class_names
    assert (one.labels is None) == (other.labels is None)
    if one.labels is not None and other.labels is not None:
        assert np.array_equal(one.labels, other.labels)


def grey_then_colour(make: Any, count: int = 60) -> dict[str, bytes]:
    """Pictures of two sizes, grey ones first."""
    return {
        f"{'ab'[n >= 30]}/{n:03}.png": make.picture(
            n * 4, mode="RGB" if n > 40 else "L", size=(20, 30) if n % 2 else (33, 21)
        )
        for n in range(count)
    }
