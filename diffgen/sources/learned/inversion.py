"""An encoder for a GAN: it finds the latent vectors of images, and a few steps of descent bring them nearer.

It is the hybrid of Zhu et al. 2016 (section 4): a network predicts a latent vector, and a descent begins there. Where
the generator's own pictures come from is known, so that the encoder is to find latent vector and class of these again.
Real images are unlike them: one half of every batch is real, and what the generator draws from what was found for an
image, real or not, has to be like it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import nn

from diffgen.gan_training.networks import DcganGenerator, to_unit
from diffgen.sources.learned.networks import in_equal_parts
from diffgen.sources.learned.training import OneNetwork

_WIDTH = 32  # channels of the largest map
_LEARNING_RATE = 1e-3
_MOST_GRADIENT = 1.0  # norm
_OF_PIXELS = 5.0  # weight of the mean square of the difference in [-1, 1], beside that of values of unit variance
_WHOLE = 2.0**18
_STEPS, _RATE = 10, 0.05  # of the descent that begins with what the encoder found


class Inversion(nn.Module):
    """Images float32 (N, C, H, W) in [-1, 1] to latent vectors (N, latent_dim) and scores of their classes (N, K).

    Args:
        image_shape: (C, H, W).
        classes: K, of the generator; 0: it is not conditional.
    """

    def __init__(self, image_shape: tuple[int, int, int], *, latent_dim: int, classes: int) -> None:
        super().__init__()
        channels, height, across = image_shape
        self._latent_dim = latent_dim
        layers: list[nn.Module] = []
        before = channels
        for after in (_WIDTH, 2 * _WIDTH, 4 * _WIDTH):
            layers += [nn.Conv2d(before, after, 4, stride=2, padding=1), nn.GroupNorm(8, after), nn.SiLU()]
            before, height, across = after, height // 2, across // 2
        self.body = nn.Sequential(
            *layers,
            nn.Flatten(),
            nn.Linear(before * height * across, 512),
            nn.SiLU(),
            nn.Linear(512, latent_dim + classes),
        )

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found: torch.Tensor = self.body(pixels).float()
        return found[:, : self._latent_dim], found[:, self._latent_dim :]


class InversionLesson(OneNetwork[Inversion]):
    """See :class:`diffgen.sources.learned.training.Lesson`.

    Args:
        generator: trained, in eval mode, on ``device``; it is left as it is.
    """

    def __init__(self, encoder: Inversion, generator: DcganGenerator, *, device: torch.device) -> None:
        super().__init__("encoder", encoder, rate=_LEARNING_RATE, most_gradient=_MOST_GRADIENT, device=device)
        self._generator = generator

    def update(self, images: torch.Tensor, rng: torch.Generator) -> dict[str, torch.Tensor]:
        """One step: half of the batch are real images, half are the generator's own pictures."""
        real = to_unit(images[: len(images) // 2])
        own = self._random_genes(len(images) - len(real), rng)
        with self.autocast():
            with torch.no_grad():
                drawn = self._generator(own)
            pixels = torch.cat([real, drawn])
            values, scores = self.network(pixels)
            again = self._generator(_genes(values, scores.argmax(dim=1)) if scores.shape[1] else values)
        wanted = own[:, : values.shape[1]]
        values_lost = (values[len(real) :] - wanted).square().mean()
        pixels_lost = (again - pixels).square().mean()
        # real ones come from nowhere: what is found for them shall be as probable as what the generator knows
        far = (values[: len(real)].square().mean(dim=1) - 1).clamp(min=0).mean()
        loss = values_lost + _OF_PIXELS * pixels_lost + far
        if scores.shape[1]:
            loss = loss + F.cross_entropy(scores[len(real) :], own[:, -1].long())
        self.descend(loss)
        return {"loss": loss.detach(), "pixels": pixels_lost.detach()}

    def _random_genes(self, count: int, rng: torch.Generator) -> torch.Tensor:
        values = torch.randn(count, self._generator.latent_dim, generator=rng)
        classes = self._generator.classes
        if not classes:
            return values.to(self.device)
        return _genes(values, torch.randint(classes, (count,), generator=rng)).to(self.device)

    def error(self, images: torch.Tensor) -> float:
        """Mean square of the difference in [-1, 1] between images and what is drawn from what was found for them."""
        pixels = to_unit(images.to(self.device))
        with self.autocast():
            values, scores = self.network(pixels)
            again = self._generator(_genes(values, scores.argmax(dim=1)) if scores.shape[1] else values)
        return float((again - pixels).square().mean())


def inverted(
    encoder: Inversion, generator: DcganGenerator, pixels: torch.Tensor, classes: torch.Tensor | None
) -> torch.Tensor:
    """Genes whose pictures come near to images; bit for bit a function of each image.

    Args:
        encoder, generator: in eval mode, on one device.
        pixels: float32 (N, C, H, W) in [-1, 1], on that device, N at least 1.
        classes: int64 (N,), which class the generator is asked for, -1: that which the encoder finds; None: for all.

    Returns:
        float32 (N, length) on the CPU.
    """

    def found(rows: torch.Tensor) -> torch.Tensor:
        wanted = pixels[rows]
        with torch.no_grad():
            values, scores = encoder(wanted)
        if not generator.classes:
            return descended(generator, values, wanted, steps=_STEPS, rate=_RATE).cpu()
        asked = scores.argmax(dim=1)
        if classes is not None:
            asked = torch.where(classes[rows] < 0, asked, classes[rows].to(asked.device))
        return descended(generator, _genes(values, asked), wanted, steps=_STEPS, rate=_RATE).cpu()

    return in_equal_parts(found, torch.arange(len(pixels)))


def descended(
    generator: DcganGenerator, genes: torch.Tensor, wanted: torch.Tensor, *, steps: int, rate: float
) -> torch.Tensor:
    """Genes after so many steps (Adam) down the squared difference between their pictures and the wanted ones.

    Args:
        generator: in eval mode.
        genes: float32 (N, length), to begin with; their classes stay.
        wanted: float32 (N, C, H, W) in [-1, 1].
    """
    values = genes[:, : generator.latent_dim].detach().clone().requires_grad_(True)
    classes = genes[:, generator.latent_dim :]
    optimiser = torch.optim.Adam([values], lr=rate)
    layer = generator.project[0]
    assert isinstance(layer, nn.Linear)
    with layer.register_full_backward_hook(_in_any_order(layer)), torch.enable_grad():
        for _ in range(steps):
            drawn = generator(torch.cat([values, classes], dim=1))
            optimiser.zero_grad(set_to_none=True)
            (drawn - wanted).square().flatten(1).sum(dim=1).sum().backward()
            optimiser.step()
    return torch.cat([values.detach(), classes], dim=1)


_Gradients: TypeAlias = tuple[torch.Tensor | None, ...]


def _in_any_order(layer: nn.Linear) -> Callable[[nn.Module, _Gradients, _Gradients], tuple[torch.Tensor]]:
    """A backward hook: the gradient at what a layer is given, in place of that of a product of float32 matrices.

    There the order of a row's sums, and with it their last digits, depends on some processors on the row's place. Sums
    of whole numbers below 2^53 are exact in any order: those of up to 2^17 products of numbers up to 2^18.
    """
    weight = layer.weight.detach().double()
    weight_scale = _WHOLE / weight.abs().max().clamp(min=1e-30)
    whole = (weight * weight_scale).round()

    def hook(_: nn.Module, found: _Gradients, after: _Gradients) -> tuple[torch.Tensor]:
        (gradient,) = after
        assert gradient is not None
        rows = gradient.double()
        scale = _WHOLE / rows.abs().amax(dim=1, keepdim=True).clamp(min=1e-30)
        return (((rows * scale).round() @ whole / (scale * weight_scale)).to(gradient.dtype),)

    return hook


def _genes(values: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    return torch.cat([values, classes[:, None].to(values)], dim=1)
