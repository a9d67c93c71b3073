"""The families of sources by name, and a source of somebody else's as a family."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import torch

from diffgen.config import CompareConfig
from diffgen.data.split import DataSplit
from diffgen.parts import Needs, Registry
from diffgen.sources.base import Family, FamilyContext, ImageSource
from diffgen.sources.check import checked_source, makes_source

SOURCES: Registry[Family] = Registry(Family)  # type: ignore[type-abstract]


def family_named(name: str) -> Family:
    """The family of that name: one of diffgen's own, an object that was given, or what a package offers.

    Raises:
        UserError: there is none.
    """
    given: Any = SOURCES.find(name)
    if inspect.isclass(given) and issubclass(given, Family):
        given = given()
    return given if isinstance(given, Family) else GivenFamily(name, given)


def family_of(config: CompareConfig) -> Family | None:
    """The family that the settings name, or None: they name none."""
    return None if config.source.family is None else family_named(config.source.family)


class GivenFamily(Family):
    """A source of somebody else's, or what makes one: nothing is trained, and what is given is tried out.

    Args:
        name: by which settings name it.
        given: a :class:`diffgen.sources.base.Source`, or a class or function that makes one for (C, H, W).
    """

    brought = True
    hints: ClassVar = {"encoder": "give the generator a method encode (diffgen.sources.base.EncodingSource)"}

    def __init__(self, name: str, given: Any) -> None:
        self.name, self._given = name, given  # type: ignore[misc]

    def gives(self, config: CompareConfig) -> Needs:
        """See the base class; of a function that makes a source it is not known whether it encodes."""
        return super().gives(config) | ({"encoder"} if hasattr(self._given, "encode") else set())

    def supports(self, image_shape: tuple[int, int, int]) -> None:
        """See the base class; what it draws is found out when it is tried."""

    def try_out(self, config: CompareConfig, image_shape: tuple[int, int, int], device: torch.device) -> None:
        """See the base class; what a class or a function makes is tried when it is made, which may take long."""
        if not makes_source(self._given):
            checked_source(self._given, self.name, image_shape)

    def prepare(self, split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
        """See the base class."""
        source = checked_source(self._given, self.name, split.data.image_shape)
        facts = {
            "kind": f"your own, {self.name}",
            "genes": f"{source.space.length} values",
            "discriminator": "none given, so that there is no discriminator filter",
            "compared with": f"{len(split.rows[0]):,} real images, which it may or may not have been trained on",
            "held out": f"{len(split.rows[1]):,} real images",
        }
        context.progress.say(
            f"Pictures come from {self.name}: {facts['genes']}; discriminator: {facts['discriminator']}."
        )
        return ImageSource(source, facts=facts)
