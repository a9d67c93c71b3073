"""Translation, scale, shear and rotation, with parameters of each image's own in one call of torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from diffgen.techniques.mutation.mutator import Mutated, Mutator, steps_of, to_bytes
from diffgen.types import UInt8Array

# torchvision's affine takes one set of parameters for a whole batch; it calls the same two functions of torch


def warp(
    images: UInt8Array, matrices: NDArray[Any], shifts: NDArray[Any], *, interpolation: str = "bilinear"
) -> UInt8Array:
    """Each image under an affine map of its own; what comes into view is black.

    Args:
        images: uint8 (N, C, H, W).
        matrices: (N, 2, 2), where in the image, as (x, y) in pixels from its middle, a pixel of the result lies.
        shifts: (N, 2), pixels in x and y that the image is moved by.
        interpolation: "bilinear" or "bicubic".
    """
    height, width = images.shape[-2:]
    sides = np.array([width, height], dtype=np.float64)
    theta = np.empty((len(images), 2, 3))
    # torch counts from -1 to 1 over each side
    theta[:, :, :2] = matrices * sides[None, None, :] / sides[None, :, None]
    theta[:, :, 2] = -np.einsum("nij,nj->ni", matrices, shifts) * 2 / sides
    pixels = torch.from_numpy(images).to(torch.float32)
    grid = F.affine_grid(torch.from_numpy(theta).to(torch.float32), list(images.shape), align_corners=False)
    moved = F.grid_sample(pixels, grid, mode=interpolation, padding_mode="zeros", align_corners=False)
    return to_bytes(moved.numpy())


def _unit(count: int) -> NDArray[np.float64]:
    return np.broadcast_to(np.eye(2), (count, 2, 2)).copy()


def translation(least: int, most: int) -> Mutator:
    """Moves an image by whole pixels from ``least`` to ``most`` in x and in y."""

    def apply(images: UInt8Array, rng: np.random.Generator) -> Mutated:
        shifts = rng.integers(least, most + 1, (len(images), 2))
        moved = warp(images, _unit(len(images)), shifts)
        return Mutated(moved, steps_of("shift", len(images), right=shifts[:, 0], down=shifts[:, 1]))

    return apply


def scale(least: float, most: float) -> Mutator:
    """Enlarges an image about its middle by a factor, bicubically."""

    def apply(images: UInt8Array, rng: np.random.Generator) -> Mutated:
        factors = rng.uniform(least, most, len(images))
        matrices = _unit(len(images)) / factors[:, None, None]
        made = warp(images, matrices, np.zeros((len(images), 2)), interpolation="bicubic")
        return Mutated(made, steps_of("scale", len(images), factor=factors))

    return apply


def shear(most: float) -> Mutator:
    """Moves the rows of an image sideways, by up to ``most`` of their distance from its middle."""

    def apply(images: UInt8Array, rng: np.random.Generator) -> Mutated:
        matrices = _unit(len(images))
        matrices[:, 0, 1] = shares = rng.uniform(-most, most, len(images))
        made = warp(images, matrices, np.zeros((len(images), 2)))
        return Mutated(made, steps_of("shear", len(images), degrees=np.rad2deg(np.arctan(shares))))

    return apply


def rotation(degrees: float) -> Mutator:
    """Turns an image about its middle by up to ``degrees`` either way."""

    def apply(images: UInt8Array, rng: np.random.Generator) -> Mutated:
        angle = np.deg2rad(rng.uniform(-degrees, degrees, len(images)))
        matrices = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], axis=1).reshape(-1, 2, 2)
        made = warp(images, matrices, np.zeros((len(images), 2)))
        # clockwise is positive, as in torchvision
        return Mutated(made, steps_of("rotation", len(images), degrees=-np.rad2deg(angle)))

    return apply
