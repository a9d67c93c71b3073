"""Resizing: how a picture is brought to the size that a model takes, as deployments do it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn import functional

from diffgen.config import Preprocessing, replace
from diffgen.models.inputs import before_crop

Kernel = Literal["bilinear", "bicubic", "nearest", "nearest-floor", "area", "aligned", "legacy"]


@dataclass(frozen=True)
class Geometry:
    """How pictures become (height, width).

    Attributes:
        size: height and width that come out.
        kernel: nearest-floor is OpenCV's and PyTorch's own "nearest"; aligned keeps the corners; legacy is TensorFlow
            1's bilinear, without half a pixel; area is the mean of whole pixels.
        antialias: smooth what is made smaller.
        crop: as ``Preprocessing.crop``; 0 stretches.
        crop_first: the part is cut out before it is resized.
        shift: pixels, down and to the right, that the part is cut out beside the middle.
        fill: grey level beside the picture where all of it is kept with its proportions (letterbox), or None.
        corner: that picture lies in the upper left corner, and not in the middle.
    """

    size: tuple[int, int]
    kernel: Kernel = "bilinear"
    antialias: bool = True
    crop: float = 0.0
    crop_first: bool = False
    shift: tuple[int, int] = (0, 0)
    fill: int | None = None
    corner: bool = False

    @classmethod
    def of(cls, preprocessing: Preprocessing, size: tuple[int, int]) -> Geometry:
        """As a model's own pre-processing does it."""
        return cls(
            size,
            preprocessing.interpolation or "bilinear",
            preprocessing.antialias is not False,
            preprocessing.crop or 0.0,
        )

    def as_preprocessing(self, own: Preprocessing) -> Preprocessing | None:
        """A model's pre-processing that does it, or None: there is none."""
        if self.kernel not in ("bilinear", "bicubic", "nearest"):
            return None
        if self.crop_first or self.shift != (0, 0) or self.fill is not None:
            return None
        return replace(own, size=self.size, crop=self.crop, interpolation=self.kernel, antialias=self.antialias)

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """float32 (N, C, H, W) grey levels in the size."""
        if self.fill is not None:
            return self._letterboxed(pixels)
        height, width = pixels.shape[2:]
        if not self.crop:
            return _moved(self._scaled(pixels, self.size), self.shift)
        wanted = self.size
        if self.crop_first:
            share = self.crop * min(height / wanted[0], width / wanted[1])
            part = (max(1, round(wanted[0] * share)), max(1, round(wanted[1] * share)))
            return _moved(self._scaled(_middle(pixels, part, (0, 0)), wanted), self.shift)
        tall, wide = before_crop(wanted, self.crop)
        by_height = tall * width >= wide * height
        resized = (tall, tall * width // height) if by_height else (wide * height // width, wide)
        return _middle(self._scaled(pixels, resized), wanted, self.shift)

    def _letterboxed(self, pixels: torch.Tensor) -> torch.Tensor:
        share = min(self.size[0] / pixels.shape[2], self.size[1] / pixels.shape[3])
        inner = [max(1, min(side, round(own * share))) for own, side in zip(pixels.shape[2:], self.size, strict=True)]
        down, right = (0 if self.corner else (side - own) // 2 for own, side in zip(inner, self.size, strict=True))
        whole = pixels.new_full((*pixels.shape[:2], *self.size), float(self.fill or 0))
        whole[:, :, down : down + inner[0], right : right + inner[1]] = self._scaled(pixels, (inner[0], inner[1]))
        return whole

    def _scaled(self, pixels: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        if tuple(pixels.shape[2:]) == size:
            return pixels
        match self.kernel:
            case "nearest":
                return functional.interpolate(pixels, size=size, mode="nearest-exact")
            case "nearest-floor":
                return functional.interpolate(pixels, size=size, mode="nearest")
            case "area":
                return functional.interpolate(pixels, size=size, mode="area")
            case "aligned":
                return functional.interpolate(pixels, size=size, mode="bilinear", align_corners=True)
            case "legacy":
                return _legacy(_legacy(pixels, 2, size[0]), 3, size[1])
            case kernel:
                scaled = functional.interpolate(
                    pixels, size=size, mode=kernel, align_corners=False, antialias=self.antialias
                )
                return scaled.clamp(0, 255) if kernel == "bicubic" else scaled


def _legacy(pixels: torch.Tensor, axis: int, length: int) -> torch.Tensor:
    own = pixels.shape[axis]
    places = torch.arange(length, device=pixels.device) * (own / length)
    low = places.floor().long().clamp(max=own - 1)
    share = (places - low).view([-1 if each == axis else 1 for each in range(4)])
    first, second = (pixels.index_select(axis, rows) for rows in (low, (low + 1).clamp(max=own - 1)))
    return first + (second - first) * share


def _middle(pixels: torch.Tensor, size: tuple[int, int], shift: tuple[int, int]) -> torch.Tensor:
    """The part in the middle, shifted; what lies outside of the picture is as its edge."""
    lacking = [max(0, side - own) for side, own in zip(size, pixels.shape[2:], strict=True)]
    reach = max(map(abs, shift)) + max(lacking)
    if reach:
        pixels = functional.pad(pixels, (reach,) * 4, mode="replicate")
    top, left = (
        round((own - 2 * reach - side) / 2) + reach + moved
        for own, side, moved in zip(pixels.shape[2:], size, shift, strict=True)
    )
    return pixels[:, :, top : top + size[0], left : left + size[1]]


def _moved(pixels: torch.Tensor, shift: tuple[int, int]) -> torch.Tensor:
    height, width = pixels.shape[2:]
    return pixels if shift == (0, 0) else _middle(pixels, (height, width), shift)
