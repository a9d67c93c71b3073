"""Blur, erosion and dilation: mutators that look at the neighbours of a pixel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy.ndimage import grey_dilation, grey_erosion, median_filter, uniform_filter

from diffgen.techniques.mutation.mutator import Mutated, Mutator, by_choice, steps_of, to_bytes
from diffgen.types import Int64Array, UInt8Array

Blur = Callable[[UInt8Array], Mutated]


def _blurred(images: UInt8Array, kind: str, **strengths: float) -> Mutated:
    return Mutated(images, steps_of(f"{kind}_blur", len(images), **strengths))


def box(side: int) -> Blur:
    """The mean of ``side`` x ``side`` pixels."""
    # borders are mirrored, as OpenCV does it, which the published systems use
    return lambda images: _blurred(
        to_bytes(uniform_filter(images.astype(np.float32), (1, 1, side, side), mode="mirror")), "box", side=side
    )


def gaussian(side: int) -> Blur:
    """A Gaussian of ``side`` x ``side`` pixels; its deviation follows from the side, in torchvision as in OpenCV."""

    def blur(images: UInt8Array) -> Mutated:
        from torchvision.transforms.v2 import functional as transform  # takes as long as torch, and few runs need it

        return _blurred(transform.gaussian_blur(torch.from_numpy(images), [side, side]).numpy(), "gaussian", side=side)

    return blur


def median(side: int) -> Blur:
    """The median of ``side`` x ``side`` pixels."""
    return lambda images: _blurred(
        np.asarray(median_filter(images, (1, 1, side, side), mode="nearest")), "median", side=side
    )


def bilateral(side: int, levels: float, distance: float) -> Blur:
    """A Gaussian of ``distance`` pixels over those neighbours whose grey levels are near, by ``levels``."""

    def apply(images: UInt8Array) -> Mutated:
        from skimage.restoration import denoise_bilateral  # here, because it imports scipy.stats, half a second

        # scikit-image takes grey images without an axis for their channel
        grey = images.shape[1] == 1
        smooth = [
            denoise_bilateral(
                (image[0] if grey else image) / 255.0,
                win_size=side,
                sigma_color=levels / 255.0,
                sigma_spatial=distance,
                channel_axis=None if grey else 0,
            )
            for image in images
        ]
        made = to_bytes(np.stack(smooth).reshape(images.shape) * 255.0)
        return _blurred(made, "bilateral", side=side, levels=levels, distance=distance)

    return apply


def blur(kinds: Sequence[Blur]) -> Mutator:
    """One of these blurs for each image."""

    def apply(images: UInt8Array, rng: np.random.Generator) -> Mutated:
        choices = rng.integers(0, len(kinds), len(images))
        return by_choice(images, choices, lambda group, choice: kinds[choice](group))

    return apply


def erosion(sides: Sequence[tuple[int, int]]) -> Mutator:
    """The darkest value of a rectangle of one of these sizes, (height, width)."""

    def apply(images: UInt8Array, rng: np.random.Generator) -> Mutated:
        return _by_rectangle("erosion", grey_erosion, images, rng.integers(0, len(sides), len(images)), sides)

    return apply


def dilation(sides: Sequence[tuple[int, int]]) -> Mutator:
    """The brightest value of a rectangle of one of these sizes, (height, width)."""

    def apply(images: UInt8Array, rng: np.random.Generator) -> Mutated:
        return _by_rectangle("dilation", grey_dilation, images, rng.integers(0, len(sides), len(images)), sides)

    return apply


def _by_rectangle(
    operator: str,
    grey: Callable[..., UInt8Array],
    images: UInt8Array,
    choices: Int64Array,
    sides: Sequence[tuple[int, int]],
) -> Mutated:
    def apply(group: UInt8Array, choice: int) -> Mutated:
        height, width = sides[choice]
        return Mutated(grey(group, (1, 1, height, width)), steps_of(operator, len(group), height=height, width=width))

    return by_choice(images, choices, apply)
