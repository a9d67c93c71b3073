"""Generator and discriminator of a DCGAN for 28x28, 32x32 and 64x64 images with 1 or 3 channels.

Radford et al. 2016 (strided convolutions, batch norm in the generator, LeakyReLU in the discriminator), with spectral
normalisation of the discriminator (Miyato et al. 2018) in place of its batch norm: the score of an image then does not
depend on the other images of the batch, in training and later in the discriminator filter.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from diffgen.errors import UserError

SUPPORTED_SIZES = (28, 32, 64)
# From this side on there is one more step of doubling and halving, so that the smallest feature map stays 8x8.
_THREE_STEPS = 64


def check_image_shape(image_shape: tuple[int, int, int]) -> None:
    """Say at once when no network fits the images.

    Raises:
        UserError: (C, H, W) is not one of {1, 3} x {28, 32, 64}, square.
    """
    channels, height, width = image_shape
    if channels not in (1, 3):
        raise UserError(
            f"The images are {channels}x{height}x{width}, but the GAN can draw images with 1 or 3 channels only, of "
            f"{_sizes()} pixels; give grey or RGB images, and resize them where needed."
        )
    if height != width or height not in SUPPORTED_SIZES:
        # the largest that adds no pixels
        near = max((size for size in SUPPORTED_SIZES if size <= min(height, width)), default=min(SUPPORTED_SIZES))
        raise UserError(
            f"The images are {channels}x{height}x{width}, but the GAN can draw {_sizes()} pixels only; add "
            f"--resize {near} (in Python resize={near}) to have them resized on reading."
        )


def check_resize(side: int | None) -> None:
    """Say at once when images are to be brought to a size that no network fits.

    Raises:
        UserError: neither None nor one of the supported sizes.
    """
    if side is not None and side not in SUPPORTED_SIZES:
        known = ", ".join(map(str, SUPPORTED_SIZES))
        raise UserError(f"The GAN cannot draw images of {side}x{side} pixels; give --resize one of {known}.")


def _sizes() -> str:
    *first, last = (f"{size}x{size}" for size in SUPPORTED_SIZES)
    return f"{', '.join(first)} or {last}"


def _widths(side: int, width: int) -> list[int]:
    """Channels of the feature maps from the largest map to the smallest; the map halves from each to the next."""
    return [width * 2**step for step in range(4 if side >= _THREE_STEPS else 3)]


class DcganGenerator(nn.Module):
    """Latent vectors float32 (N, latent_dim) to images float32 (N, C, H, W) in [-1, 1]."""

    def __init__(self, image_shape: tuple[int, int, int], *, latent_dim: int, width: int) -> None:
        super().__init__()
        channels, height, _ = image_shape
        *narrower, widest = _widths(height, width)
        self.image_shape = image_shape
        self.latent_dim = latent_dim
        self.base = height // 2 ** len(narrower)
        self.widest = widest
        self.project = nn.Sequential(
            nn.Linear(latent_dim, self.widest * self.base**2, bias=False),
            nn.Unflatten(1, (self.widest, self.base, self.base)),
            nn.BatchNorm2d(self.widest),
            nn.ReLU(inplace=True),
        )
        layers: list[nn.Module] = []
        before = widest
        for after in reversed(narrower):
            layers += [
                nn.ConvTranspose2d(before, after, 4, stride=2, padding=1, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(inplace=True),
            ]
            before = after
        self.draw = nn.Sequential(*layers, nn.Conv2d(width, channels, 3, padding=1), nn.Tanh())
        self.apply(_initialise)

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        drawn: torch.Tensor = self.draw(self.project(latents))
        return drawn


class DcganDiscriminator(nn.Module):
    """Images float32 (N, C, H, W) in [-1, 1] to scores float32 (N,); higher is more real, no fixed range."""

    def __init__(self, image_shape: tuple[int, int, int], *, width: int) -> None:
        super().__init__()
        channels, height, _ = image_shape
        *narrower, widest = _widths(height, width)
        self.image_shape = image_shape
        layers: list[nn.Module] = []
        before = channels
        for after in narrower:
            layers += [
                spectral_norm(nn.Conv2d(before, after, 4, stride=2, padding=1)),
                nn.LeakyReLU(0.1, inplace=True),
            ]
            before = after
        self.judge = nn.Sequential(
            *layers,
            spectral_norm(nn.Conv2d(before, widest, 3, padding=1)),
            nn.LeakyReLU(0.1, inplace=True),
            nn.Flatten(),
            spectral_norm(nn.Linear(widest * (height // 2 ** len(narrower)) ** 2, 1)),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.judge(images)
        return scores.squeeze(1)


def _initialise(module: nn.Module) -> None:
    """Weights as in DCGAN: N(0, 0.02), scales of batch norm around one."""
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)


def to_unit(images: torch.Tensor) -> torch.Tensor:
    """uint8 (N, C, H, W) to float32 in [-1, 1], the range in which both networks work."""
    return images.to(torch.float32).div_(127.5).sub_(1.0)


def to_uint8(images: torch.Tensor) -> torch.Tensor:
    """float32 (N, C, H, W) in [-1, 1] to uint8, rounded to the nearest grey level."""
    return images.add(1.0).mul_(127.5).round_().clamp_(0, 255).to(torch.uint8)
