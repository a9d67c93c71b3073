"""Where images come from."""

from __future__ import annotations

from typing import Literal

from diffgen.config.schema import Many, Maybe, setting, settings
from diffgen.errors import UserError, did_you_mean

OPERATORS = ("rotation", "shift", "shear", "scale", "brightness", "contrast", "blur", "noise")


@settings("source.seeds")
class SeedsConfig:
    """The family ``seeds``: real images with operators applied to them, which keep their label.

    Raises:
        UserError: an operator that is not known, or none.
    """

    operators: Many[str] = setting(OPERATORS, "The operators that real images are changed by.")
    steps: int = setting(2, "How many operators are applied to an image, one after the other.", ge=1, le=8)

    def __post_init__(self) -> None:
        for name in self.operators:
            if name not in OPERATORS:
                raise UserError(f"The operator {name!r} is not known; {did_you_mean(name, OPERATORS, quoted=True)}")
        if not self.operators:
            raise UserError("The source seeds needs an operator; name one under source.seeds.operators.")


@settings("source")
class SourceConfig:
    """Which family of sources draws the images."""

    family: Maybe[Literal["gan", "file", "seeds"]] = setting(
        None,
        "Where images come from: a GAN trained on the data, a generator's file, or seeds, real images with operators "
        "(default: file where --generator names one, else gan).",
        option="--source",
        common=True,
    )
    seeds: SeedsConfig = setting(factory=SeedsConfig)
