"""Networks without training that give each pixel a class: ground, red or blue, by the colours about it."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from diffgen.types import UInt8Array

NAMES = ("ground", "red", "blue")


def pictures(count: int, side: int = 48, seed: int = 0) -> tuple[UInt8Array, np.ndarray]:
    """uint8 (N, 3, side, side) with dark grounds and up to three red and blue squares of any brightness; true maps."""
    draw = np.random.default_rng(seed)
    images = draw.integers(0, 20, (count, 3, side, side), dtype=np.uint8)
    maps = np.zeros((count, side, side), dtype=np.int64)
    for image, own in zip(images, maps, strict=True):
        for _ in range(int(draw.integers(1, 4))):
            high, wide = draw.integers(side // 5, side // 2, 2)
            top, left = draw.integers(0, side - high), draw.integers(0, side - wide)
            number = int(draw.integers(1, 3))
            image[:, top : top + high, left : left + wide] = 10
            image[2 * (number - 1), top : top + high, left : left + wide] = draw.integers(90, 255)
            own[top : top + high, left : left + wide] = number
    return images, maps


class Painter(nn.Module):
    """Pixels (N, 3, H, W) in [0, 1] to what ``gives`` says, with a pixel of the map for so many of the picture.

    Args:
        gives: "first" logits (N, 3, H, W), "last" (N, H, W, 3), "map" whole numbers (N, H, W), "one" logits of red
            alone (N, 1, H, W), or "dict" of two outputs as torchvision has them.
        least: how bright a colour has to be.
        stride: of the logits.
    """

    def __init__(self, gives: str = "first", least: float = 0.25, stride: int = 1) -> None:
        super().__init__()
        self.gives, self.least, self.stride = gives, least, stride

    def forward(self, x: Tensor) -> Tensor | dict[str, Tensor]:
        colours = F.avg_pool2d(F.pad(x[:, 0::2] - x[:, 1:2], (1, 1, 1, 1), mode="replicate"), 3, 1)
        logits = 8 * torch.cat([torch.full_like(colours[:, :1], self.least), colours], dim=1)
        if self.stride > 1:
            logits = F.avg_pool2d(logits, self.stride)
        if self.gives == "dict":
            return {"out": logits, "aux": logits[:, :, ::2, ::2]}
        if self.gives == "last":
            return logits.permute(0, 2, 3, 1)
        if self.gives == "one":
            return logits[:, 1:2] - logits[:, :1]
        return logits.argmax(dim=1) if self.gives == "map" else logits


def export(painter: Painter, path: Path, side: int = 48) -> Path:
    """An ONNX file that takes batches of any size."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            painter.eval(),
            (torch.zeros(2, 3, side, side),),
            str(path),
            input_names=["x"],
            dynamic_axes={"x": {0: "n"}},
            dynamo=False,
        )
    return path
