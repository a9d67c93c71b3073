"""What an operator is: a way to change a real image by explicit strengths, so that its label stays.

What an operator makes of an image depends on the image and the strengths alone, never on the others in the batch.
Strengths come from genes between -1 and 1 through a :class:`Range`, which the jury may have calibrated
(:mod:`diffgen.sources.calibration`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.features.vae import AutoEncoder
from diffgen.gan_training.augmentation import Background
from diffgen.origins import Step
from diffgen.sampling import random_rows
from diffgen.types import Int64Array, UInt8Array

STRENGTHS = 2  # genes of one operator, whichever of them it needs
_PATTERNS = 1_000_000  # different patterns of noise; as many as a recipe's six digits tell apart
_LOOKED_AT = 500  # images, for their colour
Strengths = list[dict[str, float]]
Float64Array = NDArray[np.float64]


@dataclass(frozen=True)
class Range:
    """Strengths that keep the label.

    Attributes:
        low, high: the least and the greatest.
        neutral: what changes nothing; where it equals ``low`` or ``high`` the operator has one direction only.
    """

    low: float
    neutral: float
    high: float

    def at(self, gene: float) -> float:
        """The strength for a gene from -1 to 1."""
        if self.neutral in (self.low, self.high):
            # no gene is spent on a direction that is not there
            return self.low + (self.high - self.low) * (1 + gene) / 2
        return self.neutral + abs(gene) * ((self.high if gene >= 0 else self.low) - self.neutral)

    def times(self, factor: float) -> Range:
        """The same in another unit."""
        return Range(self.low * factor, self.neutral * factor, self.high * factor)


@dataclass(frozen=True)
class Axis:
    """A strength that can be more or less.

    Attributes:
        name: of the strength, as recipes have it.
        usual: the range where no jury has calibrated another one.
        widest: how far calibration may go: what lies beyond is another picture, whatever a jury says.
        percent_of: the ranges are in percent of this side of the image; None: in the strength's own unit.
        most: where the usual range ends on large images, in the strength's own unit; None: nowhere.
        whole: the strength is a whole number.
        unit: said behind a number in the report, such as " degrees".
    """

    name: str
    usual: Range
    widest: Range
    percent_of: Literal["height", "width"] | None = None
    most: float | None = None
    whole: bool = False
    unit: str = ""

    def of(self, ranges: Range, sides: tuple[int, int]) -> Range:
        """One of the ranges in the unit of the strength, for images of (H, W)."""
        if self.percent_of is None:
            return ranges
        return ranges.times(sides[0 if self.percent_of == "height" else 1] / 100)

    def value(self, ranges: Range, gene: float) -> float:
        """The strength for a gene, within a range in the unit of the strength."""
        value = ranges.at(gene)
        # as a recipe writes it, so that a recipe makes the very same image again
        return float(round(value)) if self.whole else float(f"{value:.6g}")

    def text(self, ranges: Range) -> str:
        """A range in words: ``-14 to 15 degrees``."""
        direction = f" {self.name}" if self.name in ("right", "down") else ""
        return f"{ranges.low:.3g} to {ranges.high:.3g}{self.unit}{direction}"


class ImageRows:
    """Images that are handed out row by row, so that a map of them is read only where it is asked for.

    Args:
        images: uint8 (R, C, H, W).
    """

    def __init__(self, images: UInt8Array) -> None:
        self._images = images
        self.shape = images.shape

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, rows: torch.Tensor | Int64Array | Sequence[int]) -> torch.Tensor:
        """uint8 (n, C, H, W) of memory of their own."""
        return torch.from_numpy(self._images[np.asarray(rows, dtype=np.int64)])


@dataclass(frozen=True, eq=False)
class Scene:
    """What operators know besides the image.

    Attributes:
        seeds: uint8 (R, C, H, W), all real images.
        background: grey levels of their plain background, or None: they have none.
        auto_encoder: of the real images, or None: no operator asks for it.
        grey: all channels of an image are alike: it has one, or shades of grey were saved as colours.
    """

    seeds: torch.Tensor | ImageRows
    background: Background
    auto_encoder: AutoEncoder | None = None
    grey: bool = False


def is_grey(images: UInt8Array) -> bool:
    """Whether a random sample of uint8 (N, C, H, W) shows shades of grey alone, however many channels they have."""
    some = images[np.sort(random_rows(len(images), _LOOKED_AT))]
    return bool((some == some[:, :1]).all())


@dataclass(frozen=True)
class Operator:
    """One way to change an image so that its label stays.

    Attributes:
        axes: what the genes of a step decide: one or two.
        apply: uint8 (N, C, H, W), the scene and N sets of strengths -> as many images.
        patterned: its second gene chooses a random pattern, the strength ``seed``.
        towards: it leads towards another real image, the strength ``other``.
        photographic: images without colour are changed by it only where it is named: it is what happens to photographs.
        only: the images that it is for, or None: all.
        moves: what becomes of boxes, where pixels move: float64 (n, 4) of corners x1, y1, x2, y2 in pixels, (H, W) of
            the image and the strengths -> as many boxes around what was in them, which may lie beside the image; None:
            they stay where they are.
    """

    axes: tuple[Axis, ...]
    apply: Callable[[torch.Tensor, Scene, Strengths], torch.Tensor]
    patterned: bool = False
    towards: bool = False
    learned: bool = False
    photographic: bool = False
    only: Literal["grey", "colour"] | None = None
    moves: Callable[[Float64Array, tuple[int, int], Mapping[str, float]], Float64Array] | None = None

    def fits(self, channels: int, *, grey: bool = False) -> bool:
        """Whether images of so many channels, which are all alike (``grey``) or not, can be changed by it."""
        return self.only is None or (grey or channels == 1 if self.only == "grey" else channels > 1)

    def usual(self, sides: tuple[int, int]) -> dict[str, Range]:
        """The range of every strength of images of (H, W) that no jury has calibrated."""
        found = {axis.name: axis.of(axis.usual, sides) for axis in self.axes}
        ends = {axis.name: math.inf if axis.most is None else axis.most for axis in self.axes}
        return {name: replace(each, high=min(each.high, ends[name])) for name, each in found.items()}

    def widest(self, sides: tuple[int, int]) -> dict[str, Range]:
        """How far calibration may go."""
        return {axis.name: axis.of(axis.widest, sides) for axis in self.axes}

    def strengths(self, genes: tuple[float, float], other: int, ranges: Mapping[str, Range]) -> dict[str, float]:
        """Name and value of each strength for the two genes of a step and the row of another image."""
        if len(self.axes) == 2:
            # on the circle and not the square: both at once are no further than either alone
            length = float(np.hypot(*genes))
            shrink = max(map(abs, genes)) / length if length else 0.0
            genes = (genes[0] * shrink, genes[1] * shrink)
        values = {axis.name: axis.value(ranges[axis.name], gene) for axis, gene in zip(self.axes, genes, strict=False)}
        if self.patterned:
            values["seed"] = _pattern(genes[1])
        if self.towards:
            values["other"] = other
        return values


def step_of(name: str, operator: Operator, genes: tuple[float, float], other: int, ranges: Mapping[str, Range]) -> Step:
    """What an operator with these genes does."""
    return Step(name, tuple(operator.strengths(genes, other, ranges).items()))


def column(strengths: Strengths, name: str) -> torch.Tensor:
    """One strength of every image, float64 (N, 1, 1, 1)."""
    return torch.tensor([each[name] for each in strengths], dtype=torch.float64)[:, None, None, None]


def to_bytes(images: torch.Tensor) -> torch.Tensor:
    """Grey levels as images have them."""
    return images.round().clamp(0, 255).to(torch.uint8)


def normal_patterns(strengths: Strengths, shape: tuple[int, ...]) -> torch.Tensor:
    """float64 (N, *shape): standard normal noise, that of each image chosen by its strength ``seed``."""
    patterns = [np.random.default_rng(int(each["seed"])).standard_normal(shape) for each in strengths]
    return torch.from_numpy(np.stack(patterns))


def _pattern(gene: float) -> int:
    digest = hashlib.blake2b(np.float32(gene).tobytes(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % _PATTERNS
