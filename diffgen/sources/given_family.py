"""A source that is not diffgen's own: an object from Python, or one that a package offers."""

from __future__ import annotations

import torch

from diffgen import extensions
from diffgen.config import CompareConfig
from diffgen.data.split import DataSplit
from diffgen.sources.base import Family, FamilyContext, ImageSource
from diffgen.sources.check import checked_source, makes_source


class GivenFamily(Family):
    """Nothing is trained, and there is no discriminator; what is given is tried out."""

    name = "given"

    def encodes_with(self, config: CompareConfig) -> bool:
        """See the base class: with a method ``encode``; of a function that makes a source it is not known."""
        return hasattr(extensions.in_use().generator, "encode")

    def supports(self, image_shape: tuple[int, int, int]) -> None:
        """See the base class; what it draws is found out when it is tried."""

    def try_out(self, config: CompareConfig, image_shape: tuple[int, int, int], device: torch.device) -> None:
        """See the base class; what a class or a function makes is tried when it is made, which may take long."""
        given = extensions.in_use().generator
        if not makes_source(given):
            checked_source(given, extensions.name_of(given), image_shape)

    def prepare(self, split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
        """See the base class."""
        given = extensions.in_use().generator
        name = extensions.name_of(given)
        source = checked_source(given, name, split.data.image_shape)
        facts = {
            "kind": f"your own, {name}",
            "genes": f"{source.space.length} values",
            "discriminator": "none given, so that there is no discriminator filter",
            "compared with": f"{len(split.rows[0]):,} real images, which it may or may not have been trained on",
            "held out": f"{len(split.rows[1]):,} real images",
        }
        context.progress.say(f"Pictures come from {name}: {facts['genes']}; discriminator: {facts['discriminator']}.")
        return ImageSource(source, facts=facts)
