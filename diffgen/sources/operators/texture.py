"""Operators on a pixel and its surroundings: blur, sharpen, the thickness of strokes, noise, and JPEG."""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from diffgen.gan_training.augmentation import BLUR_PERCENT
from diffgen.sources.operators.base import Axis, Operator, Range, Scene, Strengths, column, normal_patterns, to_bytes
from diffgen.types import Int64Array

_WIDEST_BLUR = 7.0  # percent of the width
_PLAINLY_SEEN = 3.0  # pixels; the third of five severities of Hendrycks and Dietterich (2019), for 224 pixels
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


def _jpeg(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    """Saved as a JPEG and opened again."""
    made = images.clone()
    for number, each in enumerate(strengths):
        if each["loss"] > 0:
            made[number] = _saved(images[number], quality=100 - int(each["loss"]))
    return made


def _saved(image: torch.Tensor, quality: int) -> torch.Tensor:
    """uint8 (C, H, W): what a JPEG file of this quality keeps."""
    pixels, file = image.permute(1, 2, 0).numpy(), io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if len(image) == 1 else pixels).save(file, "JPEG", quality=quality)
    opened = np.array(Image.open(file, formats=("JPEG",)))
    return torch.from_numpy(opened.reshape(pixels.shape)).permute(2, 0, 1)


def _noise(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    shape = (1 if scene.grey else images.shape[1], *images.shape[2:])
    return to_bytes(images + normal_patterns(strengths, shape) * column(strengths, "levels"))


def _thicken(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    """Strokes grow (above zero) or shrink by a number of pixels; what lies between two whole numbers is mixed."""
    # strokes are what is not background: light ones on black, as in MNIST, or dark ones on paper
    dark_strokes = scene.background is not None and sum(scene.background) / len(scene.background) >= 128
    wanted = column(strengths, "pixels")
    # light strokes shrink where everything else grows
    turned = (wanted < 0) != dark_strokes
    pixels = images.to(torch.float64)
    grown, amount = torch.where(turned, 255 - pixels, pixels), wanted.abs()
    for ring in range(math.ceil(float(amount.max())) if len(images) else 0):
        grown = grown + (amount - ring).clamp(0, 1) * (_ring(grown) - grown)
    return to_bytes(torch.where(turned, 255 - grown, grown))


def _ring(pixels: torch.Tensor) -> torch.Tensor:
    """The largest of a pixel and its four neighbours."""
    most = pixels.clone()
    for side in (2, 3):
        end = pixels.shape[side] - 1
        first, last = pixels.narrow(side, 0, end), pixels.narrow(side, 1, end)
        for own, other in ((most.narrow(side, 0, end), last), (most.narrow(side, 1, end), first)):
            torch.maximum(own, other, out=own)
    return most


OPERATORS = {
    "blur": Operator(
        (
            Axis(
                "sigma",
                Range(0, 0, BLUR_PERCENT[1]),
                Range(0, 0, _WIDEST_BLUR),
                percent_of="width",
                most=_PLAINLY_SEEN,
                unit=" pixels",
            ),
        ),
        _blur,
    ),
    "jpeg": Operator((Axis("loss", Range(0, 0, 70), Range(0, 0, 85), whole=True),), _jpeg, photographic=True),
    "sharpen": Operator((Axis("amount", Range(0, 0, 1), Range(0, 0, 5)),), _sharpen),
    "stroke": Operator(
        (Axis("pixels", Range(-1.5, 0, 2), Range(-7, 0, 7), percent_of="width", unit=" pixels"),), _thicken, only="grey"
    ),
    "noise": Operator((Axis("levels", Range(0, 0, 10), Range(0, 0, 30), unit=" grey levels"),), _noise, patterned=True),
}
