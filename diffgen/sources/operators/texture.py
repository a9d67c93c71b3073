"""Operators on a pixel and its surroundings: blur, sharpen, the thickness of strokes, and noise."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from diffgen.gan_training.augmentation import BLUR_PERCENT
from diffgen.sources.operators.base import Axis, Operator, Range, Scene, Strengths, column, normal_patterns, to_bytes

_WIDEST_BLUR = 7.0  # percent of the width
_SHARPENED = 3.0  # percent of the width: standard deviation of the blur that sharpening takes away
_SMALLEST_SIGMA = 0.05  # pixels; a narrower Gaussian weighs the pixel alone


def _blurred(images: torch.Tensor, sigmas: list[float]) -> torch.Tensor:
    """float64 (N, C, H, W): each image under a Gaussian of its own."""
    height, width = images.shape[-2:]
    # as many taps for every image, so that none depends on another's sigma
    reach = min(math.ceil(2.5 * _WIDEST_BLUR / 100 * width), min(height, width) - 1)
    widths = [2 * max(sigma, _SMALLEST_SIGMA) ** 2 for sigma in sigmas]
    taps = [[math.exp(-(k**2) / each) for k in range(-reach, reach + 1)] for each in widths]
    weights = torch.tensor([[tap / math.fsum(row) for tap in row] for row in taps], dtype=torch.float64)
    pixels = images.to(torch.float64)
    for dim in (2, 3):
        length = pixels.shape[dim]
        padding = [0, 0, reach, reach] if dim == 2 else [reach, reach, 0, 0]
        padded = F.pad(pixels, padding, mode="reflect")
        pixels = torch.zeros_like(pixels)
        for k in range(2 * reach + 1):
            pixels = pixels + weights[:, k, None, None, None] * padded.narrow(dim, k, length)
    return pixels


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
