"""The networks of a DCGAN for 28x28, 32x32 and 64x64 images with 1 or 3 channels, class-conditional when labels exist.

Radford et al. 2016 (strided convolutions, batch norm in the generator, LeakyReLU in the discriminator), with spectral
normalisation of the discriminator (Miyato et al. 2018) in place of its batch norm: the score of an image then does not
depend on the other images of the batch, in training and later in the discriminator filter.

A conditional generator is told its class in one place, beside the latent vector (Mirza and Osindero 2014); a
conditional discriminator compares the class with its last features (projection, Miyato and Koyama 2018). Conditional
batch norm in the generator draws much the same picture of each class again and again here:
docs/decisions/007-the-gan.md.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch.nn.utils.parametrizations import spectral_norm

from diffgen.errors import UserError

SUPPORTED_SIZES = (28, 32, 64)
_FEWEST = 100  # real images
# From this side on there is one more step of doubling and halving, so that the smallest feature map stays 8x8.
_THREE_STEPS = 64
# Where torch keeps the weight of a layer under spectral normalisation.
_PARAMETRISED = "parametrizations.weight"


def check_count(images: int) -> None:
    """See that there are real images enough for a GAN to learn from, or raise UserError."""
    if images < _FEWEST:
        raise UserError(
            f"The data have {images:,} images, and a GAN takes {_FEWEST} at least, or it learns them by heart; give "
            "more, or search from the real images themselves (--preset default)."
        )


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


def check_resize(side: int | tuple[int, int] | None) -> None:
    """Say at once, by UserError, when images are to be brought to a size that no network fits."""
    if side is not None and side not in SUPPORTED_SIZES:
        known = ", ".join(map(str, SUPPORTED_SIZES))
        height, width = side if isinstance(side, tuple) else (side, side)
        raise UserError(f"The GAN cannot draw images of {height}x{width} pixels; give --resize one of {known}.")


def _sizes() -> str:
    *first, last = (f"{size}x{size}" for size in SUPPORTED_SIZES)
    return f"{', '.join(first)} or {last}"


def _widths(side: int, width: int) -> list[int]:
    """Channels of the feature maps from the largest map to the smallest; the map halves from each to the next."""
    return [width * 2**step for step in range(4 if side >= _THREE_STEPS else 3)]


class DcganGenerator(nn.Module):
    """Latent vectors to images float32 (N, C, H, W) in [-1, 1].

    The latent vectors are float32 (N, latent_dim), or, when ``classes`` > 0, (N, latent_dim + 1) with the class, a
    whole number from 0, as the last value.
    """

    def __init__(self, image_shape: tuple[int, int, int], *, latent_dim: int, width: int, classes: int = 0) -> None:
        super().__init__()
        channels, height, _ = image_shape
        *narrower, widest = _widths(height, width)
        self.image_shape = image_shape
        self.latent_dim = latent_dim
        self.classes = classes
        self.base = height // 2 ** len(narrower)
        self.widest = widest
        self.project = nn.Sequential(
            nn.Linear(latent_dim + classes, self.widest * self.base**2, bias=False),
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
        self.draw = nn.Sequential(*layers, nn.Conv2d(width, channels, 3, padding=1))
        # on "meta" there are no weights to be drawn, and torch imports its compiler to draw none
        if not next(self.parameters()).is_meta:
            self.apply(_initialise)

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        if self.classes:
            values, number = latents[:, :-1], latents[:, -1].long()
            latents = torch.cat([values, F.one_hot(number, self.classes).to(values)], dim=1)
        drawn: torch.Tensor = self.draw(self.project(latents))
        # float32 also where the layers before ran in half precision
        return drawn.float().tanh()


def folded(network: DcganGenerator) -> DcganGenerator:
    """A copy that draws the same pictures sooner: batch norm inside the convolutions, channels last.

    At MNIST's size it takes 0.65 to 0.7 of the time, at 32 and 64 pixels 0.55 to 0.6 (benchmarks/results/parts.md).
    Pixels differ by rounding alone.
    """
    made = copy.deepcopy(network).eval()
    layers: list[nn.Module] = []
    for layer in made.draw:
        if isinstance(layer, nn.BatchNorm2d):
            convolution = layers.pop()
            assert isinstance(convolution, nn.ConvTranspose2d)
            layers.append(fuse_conv_bn_eval(convolution, layer, transpose=True))
        else:
            layers.append(layer)
    made.draw = nn.Sequential(*layers)
    return made.to(memory_format=torch.channels_last)


class DcganDiscriminator(nn.Module):
    """Images float32 (N, C, H, W) in [-1, 1] to scores float32 (N,); higher is more real, no fixed range.

    Without ``normalised`` its layers are plain ones, for the weights that :func:`normalised_weights` gives.
    """

    def __init__(
        self, image_shape: tuple[int, int, int], *, width: int, classes: int = 0, normalised: bool = True
    ) -> None:
        super().__init__()
        channels, height, _ = image_shape
        *narrower, widest = _widths(height, width)
        self.image_shape = image_shape
        self.classes = classes
        norm = spectral_norm if normalised else lambda layer: layer
        layers: list[nn.Module] = []
        before = channels
        for after in narrower:
            layers += [
                norm(nn.Conv2d(before, after, 4, stride=2, padding=1)),
                nn.LeakyReLU(0.1, inplace=True),
            ]
            before = after
        self.look = nn.Sequential(
            *layers, norm(nn.Conv2d(before, widest, 3, padding=1)), nn.LeakyReLU(0.1, inplace=True)
        )
        self.judge = norm(nn.Linear(widest * (height // 2 ** len(narrower)) ** 2, 1))
        # one direction in the space of the summed features for each class
        self.compare = norm(nn.Linear(widest, classes, bias=False)) if classes else None

    def forward(self, images: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Scores of images.

        Args:
            images: float32 (N, C, H, W) in [-1, 1].
            labels: int64 (N,), the class that each shall show; without it a conditional discriminator takes the class
                that suits the image best.
        """
        seen = self.look(images)
        scores: torch.Tensor = self.judge(seen.flatten(1)).squeeze(1)
        if self.compare is None:
            return scores.float()
        # divided by the side: the plain sum over all places is so steep that the generator learns nothing at first
        likeness: torch.Tensor = self.compare(seen.sum(dim=(2, 3)) / seen.shape[-1])
        chosen = likeness.amax(dim=1) if labels is None else likeness.gather(1, labels[:, None]).squeeze(1)
        return (scores + chosen).float()


def normalised_weights(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights that a trained discriminator computes with, from its ``state_dict``.

    Each W becomes W / sigma with sigma = u'Wv, the same product as in :func:`spectral_norm` outside training (Miyato
    et al. 2018, algorithm 1), taken once instead of with every batch.

    Raises:
        KeyError: vectors are missing.
        RuntimeError: their shapes do not belong together.
    """
    plain = {name: value for name, value in state.items() if _PARAMETRISED not in name}
    for name, weight in state.items():
        if name.endswith(f"{_PARAMETRISED}.original"):
            layer = name.removesuffix(f"{_PARAMETRISED}.original")
            u, v = (state[f"{layer}{_PARAMETRISED}.0.{vector}"] for vector in ("_u", "_v"))
            plain[f"{layer}weight"] = weight / torch.vdot(u, torch.mv(weight.flatten(1), v))
    return plain


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
