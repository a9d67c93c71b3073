"""A small variational auto-encoder (Kingma and Welling 2014) of the real images.

What it has learnt to draw again is what real images are made of. It shares nothing with the models under test, with the
GAN, nor with any judge of the results.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import nn

from diffgen.events import Progress
from diffgen.features.one_cycle import OneCycleAdam
from diffgen.features.shrinking import shrunk, shrunk_shape
from diffgen.numerics import seeded
from diffgen.runs.artifacts import tensors_digest

FORMAT = "diffgen-vae-3"
LATENT = 16
_BATCH = 32
_LEARNING_RATE = 5e-3  # at the height of its one cycle
_SMALL, _LARGE = 16, 32  # channels of the feature maps


class Vae(nn.Module):
    """uint8 (N, C, H, W) to images float32 (N, C, h, w) in 0..1: of the same shape, or shrunk to 32 pixels a side.

    Sides that are no multiples of 4 grow to the next one by repeating the last row or column, which is cut off again.
    """

    def __init__(self, image_shape: tuple[int, int, int]) -> None:
        super().__init__()
        channels, height, width = shrunk_shape(image_shape)
        self._sides = (height, width)
        self._padding = (0, -width % 4, 0, -height % 4)
        map_shape = (_LARGE, -(-height // 4), -(-width // 4))
        values = _LARGE * map_shape[1] * map_shape[2]
        self.encoder = nn.Sequential(
            nn.Conv2d(channels, _SMALL, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(_SMALL, _LARGE, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(values, 2 * LATENT),
        )
        self.decoder = nn.Sequential(
            nn.Linear(LATENT, values),
            nn.ReLU(),
            nn.Unflatten(1, map_shape),
            nn.ConvTranspose2d(_LARGE, _SMALL, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(_SMALL, channels, 4, stride=2, padding=1),
        )

    def loss(self, images: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Negative evidence lower bound per image, Bernoulli pixels.

        Args:
            images: uint8 (N, C, H, W).
            noise: float32 (N, 16), normal.
        """
        target = shrunk(images).to(torch.float32) / 255
        mean, log_variance = self.encoder(self._grown(target)).chunk(2, dim=1)
        drawn = self._cut(self.decoder(mean + noise * (log_variance / 2).exp()))
        reconstruction = F.binary_cross_entropy_with_logits(drawn, target, reduction="sum")
        divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum()
        loss: torch.Tensor = (reconstruction + divergence) / len(images)
        return loss

    @torch.inference_mode()
    def reconstruct(self, images: torch.Tensor) -> torch.Tensor:
        """What is drawn from the mean of each image's code: no noise, and each image for itself.

        Args:
            images: uint8 (N, C, H, W).

        Returns:
            float32 (N, C, h, w) in 0..1, on the network's device, as :func:`diffgen.features.shrinking.shrunk` gives
            images.
        """
        device = next(self.parameters()).device
        return self.decode(self.encode(images.to(device, torch.float32) / 255))

    def encode(self, pixels: torch.Tensor) -> torch.Tensor:
        """Codes, the mean of each image's own, for (N, C, H, W) in 0..1."""
        codes: torch.Tensor = self.encoder(self._grown(shrunk(pixels)))[:, :LATENT]
        return codes

    def decode(self, codes: torch.Tensor) -> torch.Tensor:
        """(N, C, h, w) in 0..1 for codes."""
        drawn: torch.Tensor = self._cut(self.decoder(codes)).sigmoid()
        return drawn

    def _grown(self, pixels: torch.Tensor) -> torch.Tensor:
        return F.pad(pixels, self._padding, mode="replicate") if any(self._padding) else pixels

    def _cut(self, drawn: torch.Tensor) -> torch.Tensor:
        return drawn[..., : self._sides[0], : self._sides[1]]


def train(
    images: torch.Tensor,
    *,
    steps: int,
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Vae:
    """Train on real images.

    Args:
        images: uint8 (N, C, H, W).
        steps: updates, of 32 images each.
        seed: of initial weights, the order of images and noise.
    """
    rng = torch.Generator().manual_seed(seed)
    channels, height, width = images.shape[1:]
    with seeded(seed):
        vae = Vae((channels, height, width)).to(device)
    images = shrunk(images)  # once, and not for every batch
    cycle = OneCycleAdam(vae.parameters(), _LEARNING_RATE, steps)
    with (progress or Progress()).stage("Learning to redraw real images", total=steps) as task:
        for _ in range(steps):
            rows = torch.randint(len(images), (_BATCH,), generator=rng)
            noise = torch.randn(_BATCH, LATENT, generator=rng)
            cycle.update(vae.loss(images[rows].to(device), noise.to(device)))
            task.advance()
    return vae.eval().requires_grad_(False)


_MEASURED = 512  # real images that the spread of codes is measured on
_SHRUNK_AT_ONCE = 8


class AutoEncoder:
    """Codes of images and images of codes, on the CPU.

    Args:
        real: uint8 (N, C, H, W), real images.

    Attributes:
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
