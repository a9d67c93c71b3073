"""The two discriminators of Argus (Duan et al.), on codes and on images, trained with a quantised auto-encoder.

Images are mixed in the space of the codes, ``(1 - a) z + a z'`` with the code of another image: one discriminator tells
mixed codes from those of real images, the other what is drawn from them from real images, and the auto-encoder learns
to deceive both while it still draws images again (section 3.1). Argus takes the other image from another class; here it
is any other of the batch, since not all data have labels.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from diffgen.gan_training.half_precision import autocast
from diffgen.gan_training.networks import to_unit
from diffgen.sources.learned.equal_parts import in_equal_parts
from diffgen.sources.learned.quantised import QuantisedCoder, QuantisedLesson

_LEARNING_RATE = 2e-4
_BETAS = (0.5, 0.999)  # as in DCGAN
_WEIGHT = 0.01  # of deceiving; a loss of 0.7 nats is then less than what images lose by being drawn again


class CodeDiscriminator(nn.Sequential):
    """Codes (N, *map) to scores (N, 1), by three dense layers."""

    def __init__(self, length: int) -> None:
        super().__init__(
            nn.Flatten(),
            nn.Linear(length, 256),
            nn.LeakyReLU(0.2),
            nn.Linear(256, 64),
            nn.LeakyReLU(0.2),
            nn.Linear(64, 1),
        )


class ImageDiscriminator(nn.Sequential):
    """Images (N, C, H, W) in [-1, 1] to scores (N, 1), by five convolutions and two dense layers."""

    def __init__(self, image_shape: tuple[int, int, int]) -> None:
        channels, height, width = image_shape
        layers: list[nn.Module] = []
        before = channels
        for after, stride in ((32, 2), (64, 2), (128, 2), (128, 1), (128, 1)):
            layers += [nn.Conv2d(before, after, 3, stride=stride, padding=1), nn.LeakyReLU(0.2)]
            before = after
            height, width = -(-height // stride), -(-width // stride)
        super().__init__(
            *layers, nn.Flatten(), nn.Linear(before * height * width, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1)
        )


class AdversarialLesson(QuantisedLesson):
    """The auto-encoder first for itself, then with its two adversaries.

    Args:
        coder: to be trained, on ``device``.
        on_codes, on_images: the discriminators, on ``device``.
        share: of the other code in a mixed one, Argus's alpha.
        alone: updates without them at first.
        device: where all is.
    """

    def __init__(
        self,
        coder: QuantisedCoder,
        on_codes: CodeDiscriminator,
        on_images: ImageDiscriminator,
        *,
        share: float,
        alone: int,
        device: torch.device,
    ) -> None:
        super().__init__(coder, device=device)
        self._adversaries = {"on_codes": on_codes, "on_images": on_images.to(memory_format=torch.channels_last)}
        self.networks |= self._adversaries
        self.optimisers |= {
            name: torch.optim.Adam(network.parameters(), lr=_LEARNING_RATE, betas=_BETAS)
            for name, network in self._adversaries.items()
        }
        self._share, self._alone = share, alone

    def beside(self, pixels: torch.Tensor, codes: torch.Tensor, rng: torch.Generator) -> dict[str, torch.Tensor]:
        """What it costs not to deceive; the adversaries are trained first, on the same images."""
        if int(self.coder.updates) < self._alone:
            return {}
        with autocast(self.device, enabled=self.half):
            mixed = codes.lerp(codes.roll(1, 0), self._share)
            drawn = self.coder.drawn(self.coder.rounded(mixed))
        seen = {"on_codes": (codes, mixed), "on_images": (pixels, drawn)}
        for name, network in self._adversaries.items():
            real, other = (each.detach() for each in seen[name])
            self.optimisers[name].zero_grad(set_to_none=True)
            (_doubt(network, real, 1.0, self) + _doubt(network, other, 0.0, self)).backward()
            self.optimisers[name].step()
        deceived = {}
        for name, network in self._adversaries.items():
            network.requires_grad_(False)
            deceived[name] = _WEIGHT * _doubt(network, seen[name][1], 1.0, self)
            network.requires_grad_(True)
        return deceived


def _doubt(network: nn.Module, seen: torch.Tensor, real: float, lesson: QuantisedLesson) -> torch.Tensor:
    """Cross-entropy of what a discriminator says of things that are all real, or are all not."""
    with autocast(lesson.device, enabled=lesson.half):
        scores: torch.Tensor = network(seen).float()
    return F.binary_cross_entropy_with_logits(scores, torch.full_like(scores, real))


class AdversaryScorer:
    """The discriminator on images; see :class:`diffgen.types.Scorer`. Scores are log-odds of being real."""

    def __init__(self, network: ImageDiscriminator, *, device: torch.device) -> None:
        self._network = network
        self._device = device

    @torch.inference_mode()
    def score(self, images: torch.Tensor) -> torch.Tensor:
        """float32 (N,) for uint8 (N, C, H, W)."""
        if len(images) == 0:
            return torch.empty(0, device=self._device)
        return in_equal_parts(lambda part: self._network(to_unit(part)).squeeze(1), images.to(self._device))
