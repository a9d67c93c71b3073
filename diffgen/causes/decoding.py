"""Decoding: JPEG again, chroma subsampling, the orientation that EXIF asks for."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import numpy as np
import torch
from PIL import Image
from torch.nn import functional

from diffgen.causes.base import Cause, Change, Seen, Stage

Apply = Callable[[torch.Tensor], torch.Tensor]


class Decoding(Cause):
    name = "decoding"

    def changes(self, seen: Seen) -> Iterator[Change]:
        for quality in (75, 90, 50):
            yield _jpeg(quality, lambda quality=quality: tuple(map(_jpeg, (quality - 15, quality - 8, quality + 8))))  # type: ignore[misc]
        if seen.image_shape[0] == 3:
            yield Change(
                "decoder: chroma subsampling",
                "sees colours at half the resolution (4:2:0 without interpolation)",
                Stage.PICTURE,
                _subsampled,
                "decode with full colour resolution",
            )


class Orientation(Cause):
    name = "orientation"

    def changes(self, seen: Seen) -> Iterator[Change]:
        advice = "turn the pictures as their EXIF tag says, once"
        for way, apply in _WAYS:
            yield Change(f"orientation: {way}", f"sees pictures {way}", Stage.PICTURE, apply, advice)


_WAYS: tuple[tuple[str, Apply], ...] = (
    ("turned by 90 degrees clockwise", lambda x: x.rot90(-1, (2, 3))),
    ("turned by 90 degrees counter-clockwise", lambda x: x.rot90(1, (2, 3))),
    ("upside down", lambda x: x.flip(2)),
    ("turned by 180 degrees", lambda x: x.flip((2, 3))),
    ("mirrored", lambda x: x.flip(3)),
)


def _jpeg(quality: int, nearby: Callable[[], tuple[Change, ...]] = tuple) -> Change:
    return Change(
        f"decoder: JPEG of quality {quality}",
        f"sees pictures that were saved as JPEG once more (quality about {quality})",
        Stage.PICTURE,
        lambda pixels: _as_jpeg(pixels, quality),
        "hand the pixels over without another JPEG",
        nearby=nearby,
    )


def _as_jpeg(pixels: torch.Tensor, quality: int) -> torch.Tensor:
    images = pixels.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
    again = []
    for image in images:
        buffer = io.BytesIO()
        Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image).save(buffer, "JPEG", quality=quality)
        again.append(np.asarray(Image.open(buffer)).reshape(image.shape))
    return torch.from_numpy(np.stack(again)).permute(0, 3, 1, 2).to(pixels)


_TO_YCC = torch.tensor([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])


def _subsampled(pixels: torch.Tensor) -> torch.Tensor:
    matrix = _TO_YCC.to(pixels)
    colours = torch.einsum("ij,njhw->nihw", matrix, pixels)
    height, width = pixels.shape[2:]
    halved = functional.interpolate(colours[:, 1:], size=((height + 1) // 2, (width + 1) // 2), mode="area")
    colours = torch.cat([colours[:, :1], functional.interpolate(halved, size=(height, width), mode="nearest")], 1)
    return torch.einsum("ij,njhw->nihw", torch.linalg.inv(matrix), colours).clamp(0, 255)
