"""The real images: how they are read, and on which of them nothing is trained."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator

from diffgen.config.schema import Maybe, setting, settings

SEEDS = 2**32 - 1  # largest seed that every random generator takes


@settings("split")
class SplitConfig:
    """The split of the real images into those that networks are trained on, and those held out.

    It belongs to the data: sources and filters that are trained on the same data see the same images.
    """

    holdout: float = setting(
        0.1,
        "Share of the real images on which nothing is trained; they calibrate the filters and guard the GAN.",
        gt=0,
        lt=1,
    )
    seed: int = setting(0, "Seed of the choice of the held-out images.", ge=0, le=SEEDS)


_TEXT = re.compile(r"\s*(\d{1,6})\s*(?:[xX]\s*(\d{1,6})\s*)?")


def _sides(value: Any) -> Any:
    """A side of a square as a number, other sizes as height and width; the reading of images checks the range."""
    if isinstance(value, str) and value not in ("none", "auto"):
        match = _TEXT.fullmatch(value)
        if match is None:
            raise ValueError(f"is {value!r}; give the side of a square such as 224, or height and width as 192x256.")
        value = tuple(int(side) for side in match.groups() if side)
        value = value[0] if len(value) == 1 else value
    if isinstance(value, list | tuple):
        value = tuple(value)
        if len(value) != 2 or not all(type(side) is int for side in value):
            raise ValueError(f"is {list(value)!r}; give the side of a square such as 224, or height and width.")
        return value[0] if value[0] == value[1] else value
    return value


Sides: TypeAlias = Annotated[Maybe[int | tuple[int, int]], BeforeValidator(_sides)]
FitRule: TypeAlias = Literal["crop", "pad", "stretch"]
ExifRule: TypeAlias = Literal["ignore", "apply"]


@settings()
class ReadingConfig:
    """How the real images of a verb are read."""

    resize: Sides = setting(
        None,
        "Bring images of any size to this one, 16 to 1024 pixels a side (default: pictures that differ in size, or are "
        "larger, to the largest input that a model declares).",
        option="--resize",
        metavar="N|HxW",
        common=True,
        brief="Bring images of any size to this one.",
    )
    fit: FitRule = setting(
        "crop",
        "How images of other proportions are brought to a size: the middle is kept (crop), all with black beside it "
        "(pad), or all in other proportions (stretch).",
        option="--fit",
        brief="How other proportions are brought to a size.",
    )
    skip_broken: bool = setting(
        False, "Leave out image files that cannot be used, and name them.", option="--skip-broken"
    )
    exif: ExifRule = setting(
        "ignore",
        "Whether image files are turned as their EXIF orientation says: apply it, or ignore it, as torchvision's "
        "ImageFolder does.",
        option="--exif",
        brief="Turn image files as EXIF says, or not.",
    )
