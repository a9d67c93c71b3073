"""Looks at what a technique proposes before any model is asked about it: what is wrong is the technique's fault."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import torch

from diffgen.errors import UserError
from diffgen.origins import NO_SEED, Origins
from diffgen.search.proposal import Proposal

Parts = tuple[bool, int | None]


def check_proposal(
    proposal: Any, technique: str, *, room: int, image_shape: tuple[int, int, int], real_images: int | None
) -> None:
    """See that a proposal is one, of images that the models can be asked about.

    Args:
        proposal: what the technique gave.
        technique: what it is called, for messages.
        room: most images that it may hold.
        image_shape: (C, H, W) that they must have.
        real_images: how many real images there are; None: not known.

    Raises:
        UserError: it is none, holds too many images or others than uint8 (N, C, H, W), a generation that is no whole
            number, genes other than finite ones in one row for each image, or origins that :func:`check_origins`
            refuses.
    """
    if not isinstance(proposal, Proposal):
        raise UserError(
            f"The technique {technique} proposes {type(proposal).__name__}; its propose() must give a diffgen.Proposal."
        )
    images: Any = proposal.images
    if not isinstance(images, torch.Tensor) or images.dtype != torch.uint8 or tuple(images.shape[1:]) != image_shape:
        kind = type(images).__name__
        given = f"{kind} of {images.dtype}, shape {tuple(images.shape)}" if hasattr(images, "shape") else kind
        raise UserError(
            f"The technique {technique} proposes images as {given}; its propose() must give a tensor of torch.uint8 "
            f"(N, {', '.join(map(str, image_shape))})."
        )
    count = len(images)
    if count > room:
        raise UserError(
            f"The technique {technique} proposes {count:,} images where there is room for {room:,}; its propose(room) "
            "must keep to the room."
        )
    genes: Any = proposal.genes
    generation: Any = proposal.generation
    if not isinstance(generation, Integral):
        raise UserError(
            f"The technique {technique} proposes images of the generation {generation!r}; give a whole number."
        )
    if genes is not None and not isinstance(genes, torch.Tensor):
        raise UserError(f"The technique {technique} proposes genes as {type(genes).__name__}; give a torch.Tensor.")
    if genes is not None and (genes.dim() != 2 or len(genes) != count):
        raise UserError(f"The technique {technique} proposes other genes than one row for each of {count:,} images.")
    if genes is not None and (genes.requires_grad or not bool(genes.isfinite().all())):
        fault = "that require a gradient; detach() them" if genes.requires_grad else "that are not finite"
        raise UserError(f"The technique {technique} proposes genes {fault}.")
    if proposal.origins is not None:
        check_origins(proposal.origins, f"The technique {technique}", count=count, real_images=real_images)


def parts_of(proposal: Proposal) -> Parts:
    """Whether a proposal tells origins, and how many genes a picture of it has; None: it has none."""
    genes = None if proposal.genes is None else int(proposal.genes.shape[1])
    return proposal.origins is not None or (proposal.source is not None and genes is not None), genes


def check_parts(proposal: Proposal, before: Parts, technique: str) -> None:
    """See that a proposal has the parts that an earlier one had: the triggers of both become one table.

    Raises:
        UserError: only one of them has genes, or origins, or the genes are of different lengths.
    """
    (told, genes), (told_before, genes_before) = parts_of(proposal), before
    if told != told_before:
        raise UserError(
            f"The technique {technique} gives origins for some proposals and none for others; give them for all, "
            "diffgen.Origins.drawn(n) for n pictures that were made from no real image."
        )
    if genes != genes_before:
        now, then = ("none" if each is None else f"{each:,}" for each in (genes, genes_before))
        raise UserError(
            f"The technique {technique} proposes pictures with another number of genes than before ({now}, not "
            f"{then}); give as many for all."
        )


def check_origins(origins: Origins, whose: str, *, count: int, real_images: int | None) -> None:
    """See that origins are of so many pictures, and name real images that there are.

    Args:
        origins: what was given.
        whose: the beginning of the message, such as "The technique Noise".
        count: of the pictures.
        real_images: how many real images there are; None: not known.

    Raises:
        UserError: they do not.
    """
    seeds: Any = origins.seeds
    if not isinstance(seeds, np.ndarray) or seeds.dtype.kind not in "iu" or seeds.shape != (len(origins.recipes),):
        raise UserError(f"{whose} gives origins whose seeds are no int64 array with one row for each recipe.")
    if len(seeds) != count:
        raise UserError(f"{whose} gives {len(seeds):,} origins for {count:,} images; give one for each.")
    highest = np.iinfo(np.int64).max if real_images is None else real_images - 1
    strange = seeds[(seeds != NO_SEED) & ((seeds < 0) | (seeds > highest))]
    if len(strange):
        raise UserError(
            f"{whose} gives an origin in the real image {strange[0]}, but there are {real_images or 0:,}, from 0 on; "
            f"give their rows, or {NO_SEED} for none."
        )
