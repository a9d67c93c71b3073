"""Images that are no real pictures, made from real ones: what validity filters have to reject."""

from __future__ import annotations

import numpy as np

from diffgen.types import UInt8Array

PATCHES = 4  # a side: shuffled images are cut into 4 x 4 patches
KINDS = ("noise", "blend of two", "inverted", "blank", "cut", "shuffled patches", "another data set")
BLEND = (0.35, 0.65)  # weight of the first of two blended images


def wrecked(real: UInt8Array, others: UInt8Array, *, seed: int) -> dict[str, UInt8Array]:
    """Kind -> uint8 (N, C, H, W), as many of each kind as there are real images.

    Args:
        real: uint8 (N, C, H, W), H and W multiples of 4.
        others: uint8 (at least N, C, H, W) of another data set.
        seed: of everything random.
    """
    rng = np.random.default_rng(seed)
    count = len(real)
    weight = rng.uniform(*BLEND, size=(count, 1, 1, 1))
    partners = real[(np.arange(count) + rng.integers(1, count, size=count)) % count]
    return {
        "noise": rng.integers(0, 256, size=real.shape, dtype=np.uint8),
        "blend of two": np.rint(weight * real + (1 - weight) * partners).astype(np.uint8),
        "inverted": 255 - real,
        "blank": np.broadcast_to(rng.integers(0, 256, size=(count, 1, 1, 1), dtype=np.uint8), real.shape).copy(),
        "cut": _cut(real, rng),
        "shuffled patches": _shuffled(real, rng),
        "another data set": others[rng.permutation(len(others))[:count]],
    }


def _cut(real: UInt8Array, rng: np.random.Generator) -> UInt8Array:
    """One half, left, right, upper or lower, is blanked with the darkest value of the image's border."""
    cut = real.copy()
    _, _, height, width = real.shape
    for image, side in zip(cut, rng.integers(4, size=len(cut)), strict=True):
        rows = [slice(None, height // 2), slice(height // 2, None), slice(None), slice(None)][side]
        columns = [slice(None), slice(None), slice(None, width // 2), slice(width // 2, None)][side]
        image[:, rows, columns] = image[:, [0, -1], :].min()
    return cut


def _shuffled(real: UInt8Array, rng: np.random.Generator) -> UInt8Array:
    count, channels, height, width = real.shape
    h, w = height // PATCHES, width // PATCHES
    patches = real.reshape(count, channels, PATCHES, h, PATCHES, w).transpose(0, 2, 4, 1, 3, 5)
    patches = patches.reshape(count, PATCHES**2, channels, h, w)
    order = np.argsort(rng.random((count, PATCHES**2)), axis=1)
    mixed = np.take_along_axis(patches, order[:, :, None, None, None], axis=1)
    mixed = mixed.reshape(count, PATCHES, PATCHES, channels, h, w).transpose(0, 3, 1, 4, 2, 5)
    return np.ascontiguousarray(mixed.reshape(real.shape))
