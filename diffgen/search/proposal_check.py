"""Looks at what a technique proposes before any model is asked about it: what is wrong is the technique's fault."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from diffgen.errors import UserError
from diffgen.origins import NO_SEED, Origins
from diffgen.search.proposal import Proposal


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
        UserError: it is none, holds too many images or others than uint8 (N, C, H, W), other numbers of genes or
            origins, or origins that :func:`check_origins` refuses.
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
    if genes is not None and (not isinstance(genes, torch.Tensor) or len(genes) != count):
        raise UserError(f"The technique {technique} proposes other genes than one row for each of {count:,} images.")
    if proposal.origins is not None:
        check_origins(proposal.origins, f"The technique {technique}", count=count, real_images=real_images)


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
