"""The family ``vq``: a quantised auto-encoder of the data set, with the discriminators of Argus where wanted."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from diffgen.config import CompareConfig
from diffgen.config.schema import Many, Maybe, SettingError, setting, settings
from diffgen.data.split import DataSplit
from diffgen.gan_training.networks import to_unit
from diffgen.numerics import seeded
from diffgen.parts import Needs
from diffgen.sources.base import FamilyContext, ImageSource
from diffgen.sources.learned.codes import Codes, CodesSource, known_codes
from diffgen.sources.learned.kept import LearnedFamily, Recipe, obtain, planned
from diffgen.sources.learned.networks import SpatialDecoder, SpatialEncoder, in_equal_parts, map_sides
from diffgen.sources.learned.training import OneNetwork

_WIDTH = 128  # channels of the widest map
_LEARNING_RATE = 1e-3
_MOST_GRADIENT = 1.0  # norm
_SLACK = 1e-3  # by which the outermost step is reached at all (the paper's epsilon)


class QuantisedCoder(nn.Module):
    """See :class:`diffgen.sources.learned.codes.Coder`.

    Args:
        image_shape: (C, H, W).
        levels: how many steps each value of a cell has; the product is the size of the codebook.

    Attributes:
        map: shape of a code, (values, h, w).
        updates: int64 scalar, those made in training.
    """

    updates: torch.Tensor
    _low: torch.Tensor
    _high: torch.Tensor
    _half: torch.Tensor
    _levels: torch.Tensor

    def __init__(self, image_shape: tuple[int, int, int], *, levels: Sequence[int]) -> None:
        super().__init__()
        self.map = (len(levels), *map_sides(image_shape))
        self.encoder = SpatialEncoder(image_shape, width=_WIDTH, outputs=len(levels))
        self.decoder = SpatialDecoder(image_shape, width=_WIDTH, inputs=len(levels))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))
        for name, values in (
            ("_levels", [float(each) for each in levels]),
            ("_half", [float(each // 2) for each in levels]),
            ("_low", [-float(each // 2) for each in levels]),
            ("_high", [float((each - 1) // 2) for each in levels]),
        ):
            self.register_buffer(name, torch.tensor(values).reshape(1, -1, 1, 1), persistent=False)

    def bounds(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Least and largest value of each gene, float32 (length,) both."""
        low, high = ((each / self._half).expand(1, *self.map).flatten() for each in (self._low, self._high))
        return low.cpu(), high.cpu()

    def codes(self, pixels: torch.Tensor) -> torch.Tensor:
        """Codes of images before they are rounded, (N, *map), within the bounds."""
        return self.bounded(self.encoder(pixels).float())

    def bounded(self, values: torch.Tensor) -> torch.Tensor:
        """Any values brought between the outermost steps, the paper's ``bound``, divided by half their number."""
        reach = (self._levels - 1) * (1 + _SLACK) / 2
        aside = (self._levels % 2 == 0).to(values.dtype) / 2  # an even number of steps has none in its middle
        codes = torch.tanh(values + torch.atanh(aside / reach)) * reach - aside
        return codes / self._half

    def rounded(self, codes: torch.Tensor) -> torch.Tensor:
        """Codes (N, *map) at the nearest whole steps; gradients pass as if nothing was rounded."""
        steps = torch.minimum(torch.maximum((codes * self._half).round(), self._low), self._high) / self._half
        return codes + (steps - codes).detach() if codes.requires_grad else steps

    def drawn(self, codes: torch.Tensor) -> torch.Tensor:
        """Pixels float32 (N, C, H, W) of codes that are rounded already."""
        pixels: torch.Tensor = self.decoder(codes).float()
        return pixels

    def genes(self, pixels: torch.Tensor) -> torch.Tensor:
        codes = self.codes(pixels)
        # the outermost step is overshot by the slack
        return torch.minimum(torch.maximum(codes, self._low / self._half), self._high / self._half).flatten(1)

    def pixels(self, genes: torch.Tensor) -> torch.Tensor:
        return self.drawn(self.rounded(genes.reshape(len(genes), *self.map)))


class QuantisedLesson(OneNetwork[QuantisedCoder]):
    """See :class:`diffgen.sources.learned.training.Lesson`."""

    def __init__(self, coder: QuantisedCoder, *, device: torch.device) -> None:
        super().__init__("coder", coder, rate=_LEARNING_RATE, most_gradient=_MOST_GRADIENT, device=device)

    def update(self, images: torch.Tensor, rng: torch.Generator) -> dict[str, torch.Tensor]:
        """One step down the mean square of the difference in [-1, 1]."""
        pixels = to_unit(images)
        with self.autocast():
            codes = self.network.codes(pixels)
            drawn = self.network.drawn(self.network.rounded(codes))
        error = F.mse_loss(drawn, pixels)
        extra = self.beside(pixels, codes, rng)
        self.descend(error + sum(extra.values(), torch.zeros((), device=self.device)))
        self.network.updates += 1
        return {"loss": error.detach(), **{name: value.detach() for name, value in extra.items()}}

    def beside(self, pixels: torch.Tensor, codes: torch.Tensor, rng: torch.Generator) -> dict[str, torch.Tensor]:
        """Losses besides that of drawing images again, by name."""
        return {}

    def error(self, images: torch.Tensor) -> float:
        """Mean square of the difference in [-1, 1] between images and what is drawn from their rounded codes."""
        pixels = to_unit(images.to(self.device))
        with self.autocast():
            drawn = self.network.pixels(self.network.genes(pixels))
        return float((drawn.clamp(-1, 1) - pixels).square().mean())


_ADVERSARIAL_RATE = 2e-4
_SHARE = 0.2  # of another image's code in the mixed ones that the discriminators see, Argus's alpha
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
        alone: updates without them at first.
        device: where all is.
    """

    def __init__(
        self,
        coder: QuantisedCoder,
        on_codes: CodeDiscriminator,
        on_images: ImageDiscriminator,
        *,
        alone: int,
        device: torch.device,
    ) -> None:
        super().__init__(coder, device=device)
        self._adversaries = {"on_codes": on_codes, "on_images": on_images.to(memory_format=torch.channels_last)}
        self.networks |= self._adversaries
        self.optimisers |= {
            name: torch.optim.Adam(network.parameters(), lr=_ADVERSARIAL_RATE, betas=_BETAS)
            for name, network in self._adversaries.items()
        }
        self._alone = alone

    def beside(self, pixels: torch.Tensor, codes: torch.Tensor, rng: torch.Generator) -> dict[str, torch.Tensor]:
        """What it costs not to deceive; the adversaries are trained first, on the same images."""
        if int(self.network.updates) < self._alone:
            return {}
        with self.autocast():
            mixed = codes.lerp(codes.roll(1, 0), _SHARE)
            drawn = self.network.drawn(self.network.rounded(mixed))
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
    with lesson.autocast():
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


FORMAT = "diffgen-vq-source-1"
_BATCH, _STEPS = 64, 1_500
# grey images take fewer: 1,000 codes a cell draw them again, colours take 64,000
_GREY, _COLOUR = (8, 5, 5, 5), (8, 8, 8, 5, 5, 5)
_FEWEST_LEVELS = 3  # of two the outermost would be the only ones
_ALONE = 0.5  # share of the updates before the discriminators join


@settings("source.vq")
class VqSettings:
    """Settings of the family ``vq``.

    Raises:
        SettingError: a number of levels that nothing can be rounded to.
    """

    levels: Many[int] = setting(
        (),
        "Steps of each value of a cell, whose product is the size of the codebook (default: 8, 5, 5, 5 for grey "
        "images, 8, 8, 8, 5, 5, 5 for colour).",
    )
    discriminators: bool = setting(
        False, "Train the two discriminators of Argus too, on codes and on images; they take twice as long."
    )
    steps: Maybe[int] = setting(None, "Updates of its training (default: 1,500, fewer for few images).", ge=1, le=10**7)

    def __post_init__(self) -> None:
        if any(not _FEWEST_LEVELS <= each <= 256 for each in self.levels) or len(self.levels) > 64:
            raise SettingError("source.vq.levels", f"is {list(self.levels)}; give at most 64 numbers from 3 to 256.")

    def levels_for(self, image_shape: tuple[int, int, int]) -> tuple[int, ...]:
        """Those that are set, or that suit images of (C, H, W)."""
        return self.levels or (_GREY if image_shape[0] == 1 else _COLOUR)


class VqFamily(LearnedFamily):
    """The rounded codes of the auto-encoder are the genes."""

    name = "vq"
    Settings = VqSettings

    def gives(self, config: CompareConfig) -> Needs:
        given = super().gives(config)
        return given | {"discriminator"} if self.settings(config).discriminators else given

    def prepare(self, split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
        own: VqSettings = self.settings(config)
        shape, device = split.data.image_shape, context.device
        self.supports(shape)
        levels = own.levels_for(shape)
        with seeded(0):
            coder = QuantisedCoder(shape, levels=levels).to(device)
        # the discriminators begin late: it must not end before
        what, early = "the quantised auto-encoder", not own.discriminators
        plan = planned(what, split, own.steps, _BATCH, _STEPS, ends_early=early)
        networks: dict[str, nn.Module] = {"coder": coder}
        decisive: dict[str, object] = {"levels": list(levels)}
        scorer = None
        if own.discriminators:
            decisive["discriminators"] = True
            length = math.prod(coder.map)
            with seeded(0):
                networks["on_codes"] = on_codes = CodeDiscriminator(length).to(device)
                networks["on_images"] = on_images = ImageDiscriminator(shape).to(device)
            scorer = AdversaryScorer(on_images, device=device)

        def lesson() -> QuantisedLesson:
            if not own.discriminators:
                return QuantisedLesson(coder, device=device)
            alone = round(_ALONE * plan.steps)
            return AdversarialLesson(coder, on_codes, on_images, alone=alone, device=device)

        kept = obtain(
            Recipe(FORMAT, decisive, plan),
            split,
            context,
            networks,
            lesson,
            lambda: {"known.genes": known_codes(coder, split.reference, device)},
        )
        low, high = coder.bounds()
        space = Codes(low.numpy(), high.numpy(), kept.tensors["known.genes"].numpy())
        facts = {
            "kind": f"auto-encoder with finite scalar quantisation, {math.prod(levels):,} codes a cell",
            "latent vector": f"{'x'.join(map(str, coder.map))} values, drawn between those of real images",
            "discriminators": "none" if scorer is None else "two, on codes and on images, as in Argus",
            **kept.facts(split),
        }
        source = CodesSource(coder, space, shape, device=device)
        return ImageSource(source, scorer, artifact=kept.path, facts=facts)
