"""An auto-encoder whose codes are rounded to whole steps: finite scalar quantisation (Mentzer et al. 2023).

As a vector quantiser it gives every cell of a map one of so many codes, but its codebook is the grid of whole steps:
nothing of it is learnt, and none of it falls out of use. Genes are the codes before they are rounded, so that they can
be mixed and mutated; drawing rounds them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn

from diffgen.gan_training.half_precision import autocast, has_bfloat16
from diffgen.gan_training.networks import to_unit
from diffgen.sources.learned.networks import SpatialDecoder, SpatialEncoder, map_sides

_WIDTH = 128  # channels of the widest map
_LEARNING_RATE = 1e-3
_MOST_GRADIENT = 1.0  # norm
_SLACK = 1e-3  # by which the outermost step is reached at all (the paper's epsilon)


class QuantisedCoder(nn.Module):
    """See :class:`diffgen.sources.learned.codes_source.Coder`.

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


class QuantisedLesson:
    """See :class:`diffgen.sources.learned.training.Lesson`.

    Args:
        coder: to be trained, on ``device``.
        device: where it is.
    """

    def __init__(self, coder: QuantisedCoder, *, device: torch.device) -> None:
        # channels last: convolutions are quicker so
        self.coder = coder.to(memory_format=torch.channels_last)
        self.networks: dict[str, nn.Module] = {"coder": self.coder}
        self.optimisers: dict[str, torch.optim.Optimizer] = {
            "coder": torch.optim.Adam(coder.parameters(), lr=_LEARNING_RATE)
        }
        self.device = device
        self.half = has_bfloat16(device)

    def update(self, images: torch.Tensor, rng: torch.Generator) -> dict[str, torch.Tensor]:
        """One step down the mean square of the difference in [-1, 1]."""
        pixels = to_unit(images)
        with autocast(self.device, enabled=self.half):
            codes = self.coder.codes(pixels)
            drawn = self.coder.drawn(self.coder.rounded(codes))
        error = F.mse_loss(drawn, pixels)
        extra = self.beside(pixels, codes, rng)
        self.optimisers["coder"].zero_grad(set_to_none=True)
        (error + sum(extra.values(), torch.zeros((), device=self.device))).backward()
        nn.utils.clip_grad_norm_(self.coder.parameters(), _MOST_GRADIENT)
        self.optimisers["coder"].step()
        self.coder.updates += 1
        return {"loss": error.detach(), **{name: value.detach() for name, value in extra.items()}}

    def beside(self, pixels: torch.Tensor, codes: torch.Tensor, rng: torch.Generator) -> dict[str, torch.Tensor]:
        """Losses besides that of drawing images again, by name."""
        return {}

    def error(self, images: torch.Tensor) -> float:
        """Mean square of the difference in [-1, 1] between images and what is drawn from their rounded codes."""
        pixels = to_unit(images.to(self.device))
        with autocast(self.device, enabled=self.half):
            drawn = self.coder.pixels(self.coder.genes(pixels))
        return float((drawn.clamp(-1, 1) - pixels).square().mean())


def codebook_size(levels: Sequence[int]) -> int:
    """How many codes a cell can have."""
    return math.prod(levels)
