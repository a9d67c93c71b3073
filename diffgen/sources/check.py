"""Tries a source out that is not diffgen's own: an image must be a pure function of its genes."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from diffgen.errors import UserError
from diffgen.models.wording import shape_text
from diffgen.origins import check_recipes
from diffgen.sources.base import EncodingSource, Source
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
