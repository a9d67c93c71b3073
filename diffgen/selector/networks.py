"""What the forest sees: networks from grey levels to features that can be written as ONNX."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from diffgen.features.pretrained import MEAN, STD
from diffgen.features.vgg16 import SIDE, Vgg16
from diffgen.types import Float32Array, UInt8Array

_BATCH = 512
_KEPT_AS = "vgg16-397923af.pth"  # the name under which torchvision keeps a download of IMAGENET1K_V1


class PixelNetwork(nn.Module):
    """Grey levels 0..255, (N, C, H, W), to float32 (N, C * H * W) in [0, 1]."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.to(torch.float32).flatten(1) / 255


class Vgg16Network(nn.Module):
    """Grey levels 0..255, (N, 1 or 3, H, W), to float32 (N, 512), as the paper's selector sees them (section 5.4).

    Images are scaled to 48x48 without a low-pass filter, which ONNX files of this kind cannot have; it would make a
    difference only where images are larger than that.
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, extractor: Vgg16) -> None:
        super().__init__()
        self.network = extractor.network
        self.register_buffer("mean", torch.tensor(MEAN).reshape(3, 1, 1))
        self.register_buffer("std", torch.tensor(STD).reshape(3, 1, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        pixels = images.to(torch.float32) / 255
        if pixels.shape[1] == 1:
            pixels = pixels.expand(-1, 3, -1, -1)
        pixels = F.interpolate(pixels, (SIDE, SIDE), mode="bilinear", align_corners=False)
        features: torch.Tensor = self.network((pixels - self.mean) / self.std)
        return features.flatten(1)


def downloaded_vgg16() -> Path | None:
    """Where torchvision keeps the weights of VGG16 after a download, or None; nothing is downloaded."""
    path = Path(torch.hub.get_dir()) / "checkpoints" / _KEPT_AS
    return path if path.is_file() else None


def extract(network: nn.Module, images: UInt8Array, *, device: torch.device) -> Float32Array:
    """Features float32 (N, D) of uint8 (N, C, H, W)."""
    network.to(device)
    with torch.inference_mode():
        parts = [network(batch.to(device).float()).cpu() for batch in torch.from_numpy(images).split(_BATCH)]
    network.cpu()
    return torch.cat(parts).numpy()
