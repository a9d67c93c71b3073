"""A network that takes images of any size and knows stripes of four widths in those of one size alone."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

from diffgen.types import ImageSet

PERIODS = 6.25, 9.4, 14.1, 21.1  # pixels, in images of 100 x 100; at 64 x 64 each is about the one before it
REACH = 15


class Stripes(nn.Module):
    """How wide are the stripes of images that were brought to 64 x 64?"""

    bank: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        at = torch.arange(-REACH, REACH + 1) / 0.64
        waves = [wave(2 * torch.pi * at / period) for period in PERIODS for wave in (torch.cos, torch.sin)]
        bank = torch.stack(waves) * torch.hann_window(2 * REACH + 1, periodic=False)
        bank = bank - bank.mean(dim=1, keepdim=True)
        self.register_buffer("bank", (bank / bank.norm(dim=1, keepdim=True))[:, None, None])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = nn.functional.conv2d(x, self.bank).square().mean(dim=(2, 3))
        return 4 * (found[:, ::2] + found[:, 1::2])


def striped_images() -> ImageSet:
    """80 grey pictures of 100 x 100 with stripes of four widths, and noise."""
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 4
    angle = 2 * np.pi * np.arange(100) / np.array(PERIODS)[labels, None] + rng.uniform(0, 6, (80, 1))
    images = 127 + 90 * np.sin(angle)[:, None, None] + rng.normal(0, 12, (80, 1, 100, 100))
    return ImageSet(images.clip(0, 255).astype(np.uint8), labels, None, "stripes")


def save_all(folder: Path) -> dict[str, Path]:
    """The network in a file that declares 64 x 64 pixels, "fixed", and in two that declare no size."""
    example = torch.zeros(2, 1, 64, 64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, axes in (("fixed", {0: "n"}), ("open", {0: "n", 2: "h", 3: "w"})):
            path = str(folder / f"{name}.onnx")
            torch.onnx.export(Stripes(), (example,), path, dynamo=False, input_names=["x"], dynamic_axes={"x": axes})
        torch.jit.save(torch.jit.trace(Stripes(), example), str(folder / "script.pt"))
    return {
        name: folder / file for name, file in (("fixed", "fixed.onnx"), ("open", "open.onnx"), ("script", "script.pt"))
    }
