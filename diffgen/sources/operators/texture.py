"""Operators on a pixel and its surroundings: blur, sharpen, the thickness of strokes, and noise."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from diffgen.gan_training.augmentation import BLUR_PERCENT
from diffgen.sources.operators.base import Axis, Operator, Range, Scene, Strengths, column, normal_patterns, to_bytes
from diffgen.types import Int64Array

_WIDEST_BLUR = 7.0  # percent of the width
_SHARPENED = 3.0  # percent of the width: standard deviation of the blur that sharpening takes away
_PIXELS_AT_ONCE = 1 << 20  # of images that are blurred together
_SMALLEST_SIGMA = 0.05  # pixels; a narrower Gaussian weighs the pixel alone


def _blurred(images: torch.Tensor, sigmas: list[float]) -> torch.Tensor:
    """float64 (N, C, H, W): each image under a Gaussian of its own, mirrored at its edges."""
    height, width = images.shape[-2:]
    # as many taps for every image, so that none depends on another's sigma
    reach = min(math.ceil(2.5 * _WIDEST_BLUR / 100 * width), min(height, width) - 1)
    each, which = np.unique(np.maximum(sigmas, _SMALLEST_SIGMA), return_inverse=True)
    taps = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * each[:, None] ** 2))
    taps /= taps.sum(axis=1, keepdims=True)
    down, across = (_mirrored(taps, side) for side in (height, width))
    blurred = torch.empty(images.shape, dtype=torch.float64)
    for rows in torch.arange(len(images)).split(max(1, _PIXELS_AT_ONCE // (height * width))):
        own = which[rows]
        pixels = images[rows].to(torch.float64)
        blurred[rows] = down(own)[:, None] @ pixels @ across(own)[:, None].mT
    return blurred


def _mirrored(taps: NDArray[np.float64], side: int) -> Callable[[Int64Array], torch.Tensor]:
    """Of some rows of taps, float64 (R, 2 reach + 1), the matrices by which a side is blurred, float64 (n, side, side).

    A product of matrices is many times as fast as a sum of shifted pictures, most of all of large ones.
    """
    reach = taps.shape[1] // 2
    reached = np.abs(np.arange(side)[:, None] + np.arange(-reach, reach + 1))
    reached = np.where(reached >= side, 2 * (side - 1) - reached, reached)
    places = torch.from_numpy(reached + side * np.arange(side)[:, None]).flatten()

    def matrices(rows: Int64Array) -> torch.Tensor:
        # equal ones need not be made for each
        different, which = np.unique(rows, return_inverse=True)
        values = torch.from_numpy(taps[different])[:, None, :].expand(-1, side, -1).flatten(1)
        made = torch.zeros(len(different), side * side, dtype=torch.float64).index_add(1, places, values)
        return made.view(-1, side, side)[which] if len(different) > 1 else made.view(1, side, side)

    return matrices


def _blur(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    return to_bytes(_blurred(images, [each["sigma"] for each in strengths]))


def _sharpen(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    """Unsharp masking."""
    soft = _blurred(images, [_SHARPENED / 100 * images.shape[-1]] * len(images))
    return to_bytes(images + (images - soft) * column(strengths, "amount"))


def _noise(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    shape = tuple(images.shape[1:])
    return to_bytes(images + normal_patterns(strengths, shape) * column(strengths, "levels"))


def _thicken(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    """Strokes grow (above zero) or shrink by a number of pixels; what lies between two whole numbers is mixed."""
    pixels = images.to(torch.float64)
    # strokes are what is not background: light ones on black, as in MNIST, or dark ones on paper
    dark_strokes = scene.background is not None and sum(scene.background) / len(scene.background) >= 128
    if dark_strokes:
        pixels = 255 - pixels
    wanted = column(strengths, "pixels")
    result = pixels
    for sign in (1.0, -1.0):
        grown, amount = sign * pixels, (sign * wanted).clamp_min(0)
        for ring in range(math.ceil(_reach(images.shape[-1]))):
            share = (amount - ring).clamp(0, 1)
            grown = grown + share * (_ring(grown) - grown)
        result = torch.where(sign * wanted > 0, sign * grown, result)
    return to_bytes(255 - result if dark_strokes else result)


def _ring(pixels: torch.Tensor) -> torch.Tensor:
    """The largest of a pixel and its four neighbours."""
    across = F.max_pool2d(pixels, (1, 3), stride=1, padding=(0, 1))
    return torch.maximum(across, F.max_pool2d(pixels, (3, 1), stride=1, padding=(1, 0)))


def _reach(width: int) -> float:
    return OPERATORS["stroke"].widest((width, width))["pixels"].high


OPERATORS = {
    "blur": Operator(
        (Axis("sigma", Range(0, 0, BLUR_PERCENT[1]), Range(0, 0, _WIDEST_BLUR), percent_of="width", unit=" pixels"),),
        _blur,
    ),
    "sharpen": Operator((Axis("amount", Range(0, 0, 1), Range(0, 0, 5)),), _sharpen),
    "stroke": Operator(
        (Axis("pixels", Range(-1.5, 0, 2), Range(-7, 0, 7), percent_of="width", unit=" pixels"),), _thicken, grey=True
    ),
    "noise": Operator((Axis("levels", Range(0, 0, 10), Range(0, 0, 30), unit=" grey levels"),), _noise, patterned=True),
}
