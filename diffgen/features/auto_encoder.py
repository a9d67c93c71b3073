"""What an auto-encoder of the real images makes of a change of its codes, with the detail of the image kept.

A small auto-encoder draws an image again without its detail. The *difference* of what it draws from two codes has none
to lose: added to the image itself it changes what the codes mean and keeps the rest, ``x + D(z') - D(z)``.

It computes in float64: the last digits of a network's answer may depend on how many images it is handed at once, and
those of float64 are far below half a grey level, so that an image is a function of its own genes.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F

from diffgen.features.shrinking import shrunk
from diffgen.features.vae import Vae
from diffgen.runs.artifacts import tensors_digest

_MEASURED = 512  # real images that the spread of codes is measured on
_SHRUNK_AT_ONCE = 8


class AutoEncoder:
    """Codes of images and images of codes, on the CPU.

    Args:
        network: a trained one.
        real: uint8 (N, C, H, W), real images.

    Attributes:
        digest: of the network's weights.
        spread: float64 (16,), standard deviation among real images' codes.
    """

    def __init__(self, network: Vae, real: torch.Tensor) -> None:
        self.digest = tensors_digest(network.state_dict())
        self._network = copy.deepcopy(network).to("cpu", torch.float64)
        # spread over the data, which may be in order of class
        rows = torch.linspace(0, len(real) - 1, min(len(real), _MEASURED)).long()
        # shrunk a few at once, for photographs in float64 are eight times as large, then encoded together
        small = torch.cat([shrunk(part.to(torch.float64) / 255) for part in real[rows].split(_SHRUNK_AT_ONCE)])
        with torch.inference_mode():
            self.spread = self._network.encode(small).std(dim=0)

    @torch.inference_mode()
    def encode(self, images: torch.Tensor) -> torch.Tensor:
        """float64 (N, 16) for float64 (N, C, H, W), grey levels."""
        return self._network.encode(images / 255)

    @torch.inference_mode()
    def decode(self, codes: torch.Tensor) -> torch.Tensor:
        """Grey levels, float64 (N, C, h, w), for float64 codes; see :class:`diffgen.features.vae.Vae`."""
        return self._network.decode(codes) * 255

    def stepped(self, images: torch.Tensor, before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        """Images with the difference of two codes of each added, float64 (N, C, H, W), not yet within 0 to 255."""
        step = self.decode(after) - self.decode(before)
        if step.shape != images.shape:
            # what a step changes is smooth: of a large picture it is computed on a small one
            step = F.interpolate(step, images.shape[-2:], mode="bilinear", align_corners=False)
        return images + step
