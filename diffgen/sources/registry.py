"""The families of sources by name, and a source of somebody else's as a family."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import torch

from diffgen.config import CompareConfig
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.models.wording import shape_text
from diffgen.origins import check_recipes
from diffgen.parts import Needs, Registry
from diffgen.sources.base import EncodingSource, Family, FamilyContext, ImageSource, Source
from diffgen.sources.space import random_genes

_PROBES = 8


def makes_source(given: object) -> bool:
    """Whether it is a class or a function that makes a source, and none itself."""
    return inspect.isclass(given) or inspect.isroutine(given)


def checked_source(given: Any, name: str, image_shape: tuple[int, int, int]) -> Source:
    """The source itself, or what makes one for the shape of the data's images.

    Args:
        given: a source, or a class or function that is called with ``image_shape``.
        name: of it, for messages.
        image_shape: (C, H, W) that it must draw.

    Raises:
        UserError: it is no source, draws images of another shape or type, an image depends on more than its genes, it
            tells a recipe that is none, or another number of genes is found for an image.
    """
    source: Any = given
    if makes_source(given):
        make: Any = given
        source = make(image_shape)
    if not isinstance(source, Source):
        lacking = [part for part in ("space", "image_shape", "draw", "origins") if not hasattr(source, part)]
        raise UserError(f"The generator {name} has no {lacking[0]}; see diffgen.Source for what one must have.")
    if tuple(source.image_shape) != image_shape:
        raise UserError(
            f"The generator {name} draws {shape_text(tuple(source.image_shape))} images but the data has "
            f"{shape_text(image_shape)}; give data of that shape."
        )
    genes = random_genes(source.space, _PROBES, torch.Generator().manual_seed(0))
    drawn = source.draw(genes)
    if drawn.dtype != torch.uint8 or tuple(drawn.shape) != (_PROBES, *image_shape):
        raise UserError(
            f"The generator {name} draws {drawn.dtype} of shape {tuple(drawn.shape)} for {_PROBES} rows of genes; let "
            f"it draw torch.uint8 of shape {(_PROBES, *image_shape)}."
        )
    if not torch.equal(drawn, source.draw(genes)):
        raise UserError(
            f"The generator {name} draws another image when it is handed the same genes again; let it take all of its "
            "randomness from the genes."
        )
    alone = torch.cat([source.draw(row) for row in genes.split(1)])
    if int((drawn.to(torch.int16) - alone.to(torch.int16)).abs().max()) > 1:
        raise UserError(f"An image of the generator {name} depends on the others in its batch; draw each by itself.")
    told = source.origins(genes)
    if told is not None:
        check_recipes(told.recipes, f"The generator {name} tells a recipe that is not understood")
    if isinstance(source, EncodingSource):
        found = source.encode(drawn)
        if tuple(found.shape) != tuple(genes.shape):
            raise UserError(
                f"The generator {name} finds genes of shape {tuple(found.shape)} for {_PROBES} images; let it find "
                f"{genes.shape[1]} for each."
            )
    return source


SOURCES: Registry[Family] = Registry(Family)  # type: ignore[type-abstract]


def family_named(name: str) -> Family:
    """The family of that name: diffgen's own, a given object, or a package's. UserError if there is none."""
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
