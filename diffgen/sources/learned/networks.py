"""Networks of auto-encoders: dense ones for grey images, and spatial ones, whose codes are a map of cells."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

CELLS = 8  # a side of the map of codes at most; flat codes lose what colour images show


class DenseEncoder(nn.Sequential):
    """float32 (N, C, H, W) to (N, outputs), by one hidden layer as in SINVAD."""

    def __init__(self, image_shape: tuple[int, int, int], *, hidden: int, outputs: int) -> None:
        channels, height, width = image_shape
        super().__init__(
            nn.Flatten(), nn.Linear(channels * height * width, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
        )


class DenseDecoder(nn.Sequential):
    """float32 (N, inputs) to (N, C, H, W)."""

    def __init__(self, image_shape: tuple[int, int, int], *, hidden: int, inputs: int) -> None:
        channels, height, width = image_shape
        super().__init__(
            nn.Linear(inputs, hidden),
            nn.ReLU(),
            nn.Linear(hidden, channels * height * width),
            nn.Unflatten(1, image_shape),
        )


class Residual(nn.Module):
    """A map (N, width, h, w) with what two convolutions of it give added."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.SiLU(), nn.Conv2d(width, width // 2, 3, padding=1), nn.SiLU(), nn.Conv2d(width // 2, width, 1)
        )

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = maps + self.body(maps)
        return added


def halvings(image_shape: tuple[int, int, int]) -> int:
    """How often images are halved until their map of codes has at most 8 cells a side; once at least."""
    count = 1
    while max(image_shape[1:]) > CELLS << count:
        count += 1
    return count


def map_sides(image_shape: tuple[int, int, int]) -> tuple[int, int]:
    """(h, w) of the map of codes; sides that do not divide count as grown to those that do."""
    cell = 1 << halvings(image_shape)
    return -(-image_shape[1] // cell), -(-image_shape[2] // cell)


def _widths(image_shape: tuple[int, int, int], width: int) -> list[int]:
    """Channels of the maps from the largest to the smallest."""
    count = halvings(image_shape)
    return [max(8, width >> (count - 1 - step)) for step in range(count)]


class SpatialEncoder(nn.Module):
    """float32 (N, C, H, W) to a map (N, outputs, h, w); see van den Oord et al. 2017, section 4.1.

    Sides that cannot be halved grow by repeating the last row or column.
    """

    def __init__(self, image_shape: tuple[int, int, int], *, width: int, outputs: int) -> None:
        super().__init__()
        channels, height, across = image_shape
        cell = 1 << halvings(image_shape)
        self._padding = (0, -across % cell, 0, -height % cell)
        layers: list[nn.Module] = []
        before = channels
        for after in _widths(image_shape, width):
            layers += [nn.Conv2d(before, after, 4, stride=2, padding=1), nn.SiLU()]
            before = after
        self.body = nn.Sequential(
            *layers[:-1], Residual(before), Residual(before), nn.SiLU(), nn.Conv2d(before, outputs, 1)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        codes: torch.Tensor = self.body(F.pad(images, self._padding, mode="replicate"))
        return codes


class SpatialDecoder(nn.Module):
    """A map float32 (N, inputs, h, w) to (N, C, H, W)."""

    def __init__(self, image_shape: tuple[int, int, int], *, width: int, inputs: int) -> None:
        super().__init__()
        channels, self._height, self._across = image_shape
        *narrower, widest = _widths(image_shape, width)
        layers: list[nn.Module] = []
        before = widest
        for after in [*reversed(narrower), channels]:
            layers += [nn.SiLU(), nn.ConvTranspose2d(before, after, 4, stride=2, padding=1)]
            before = after
        self.body = nn.Sequential(nn.Conv2d(inputs, widest, 3, padding=1), Residual(widest), Residual(widest), *layers)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        images: torch.Tensor = self.body(codes)[..., : self._height, : self._across]
        return images


PART = 32  # rows; more leave a processor's cache, and of fewer a single picture would not cost less worth speaking of


def in_equal_parts(compute: Callable[[torch.Tensor], torch.Tensor], values: torch.Tensor) -> torch.Tensor:
    """What ``compute`` gives for values (N, ...), in parts of 32 rows, the last one filled up with copies of its first.

    A library of matrix products chooses its way by the shape of what it is handed, and the last digits with it: the
    same number of rows every time is the same way every time, and each row is then a function of itself bit for bit.

    Args:
        compute: (32, ...) to (32, ...), each row for itself.
        values: N at least 1.
    """
    done = []
    for part in values.split(PART):
        # a tensor of its own: grey images can have the strides of either order in memory, and each order is another way
        filled = part.new_empty((PART, *part.shape[1:]))
        filled[: len(part)] = part
        filled[len(part) :] = part[:1]
        done.append(compute(filled)[: len(part)])
    return torch.cat(done)
