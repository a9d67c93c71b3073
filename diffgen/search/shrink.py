"""Shrinks triggers: finds the smallest step from an agreeing picture that still makes the models disagree.

Every trigger's genes are led toward those of the nearest picture on which the models agree. On the way lies a
border; by halving the way, two sets of genes are found on both sides of it whose pictures hardly differ. All triggers
are halved at the same time, in whole batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from diffgen.events import Progress
from diffgen.sources.base import Source
from diffgen.types import Float32Array, UInt8Array

# 8 ways of 16 stops: 128 pictures to find the nearest agreeing one among
_WAYS = 8
_STOPS = tuple(i / 16 for i in range(1, 17))
_HALVINGS = 12

Judge = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True)
class Steps:
    """For each of N triggers a picture on which the models agree and one on which they do not.

    Attributes:
        found: bool (N,); False where no agreeing picture was met, and the other values then mean nothing.
        agreeing, trigger: uint8 (N, C, H, W).
        agreeing_genes, trigger_genes: float32 (N, L).
        first_agreeing: uint8 (N, C, H, W), the agreeing picture that was aimed at in the beginning.
    """

    found: np.ndarray[tuple[int], np.dtype[np.bool_]]
    agreeing: UInt8Array
    trigger: UInt8Array
    agreeing_genes: Float32Array
    trigger_genes: Float32Array
    first_agreeing: UInt8Array


def smallest_steps(
    genes: torch.Tensor,
    source: Source,
    judge: Judge,
    *,
    seed: int,
    batch_size: int,
    progress: Progress | None = None,
) -> Steps:
    """Shrink triggers.

    Args:
        genes: float32 (N, L) of the triggers.
        source: genes -> image.
        judge: for uint8 (n, C, H, W), bool (n,): whether a picture counts as one on which the models agree, and bool
            (n,): whether it counts as a trigger. What is neither is walked around.
        seed: of the ways that are tried.
        batch_size: pictures that are made and asked about at once.
    """

    def judged(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        answers = [judge(source.draw(batch)) for batch in vectors.split(batch_size)]
        return torch.cat([agrees.cpu() for agrees, _ in answers]), torch.cat([hits.cpu() for _, hits in answers])

    def pictures(vectors: torch.Tensor) -> torch.Tensor:
        parts = [source.draw(batch).cpu() for batch in vectors.split(batch_size)]
        return torch.cat(parts) if parts else torch.empty((0, *source.image_shape), dtype=torch.uint8)

    rng = torch.Generator().manual_seed(seed)
    found = torch.zeros(len(genes), dtype=torch.bool)
    low, high = genes.clone(), genes.clone()
    with (progress or Progress()).stage("Looking for agreeing pictures", total=len(genes)) as task:
        for row, one in enumerate(genes):
            candidates = _ways(one, source, rng)
            usable = candidates[judged(candidates)[0]]
            if len(usable):
                difference = (pictures(usable).float() - pictures(one[None]).float()).flatten(1)
                low[row] = usable[torch.linalg.vector_norm(difference, dim=1).argmin()]
                found[row] = True
            task.advance()
    rows = found.nonzero().squeeze(1)
    first = low.clone()
    # 0 is the agreeing end of the part of the way that is left, 1 the triggering one
    share = torch.full((len(rows), 1), 0.5)
    with (progress or Progress()).stage("Halving the way", total=_HALVINGS) as task:
        for _ in range(_HALVINGS if len(rows) else 0):
            middle = source.space.interpolate(low[rows], high[rows], share)
            agrees, triggers = judged(middle)
            high[rows[triggers]] = middle[triggers]
            low[rows[agrees]] = middle[agrees]
            # neither, such as a trigger that no filter accepts: try closer to where one is known
            share = torch.where((triggers | agrees)[:, None], torch.tensor(0.5), (1 + share) / 2)
            task.advance()
    return Steps(
        found=found.numpy(),
        agreeing=pictures(low).numpy(),
        trigger=pictures(high).numpy(),
        agreeing_genes=low.numpy(),
        trigger_genes=high.numpy(),
        first_agreeing=pictures(first).numpy(),
    )


def _ways(one: torch.Tensor, source: Source, rng: torch.Generator) -> torch.Tensor:
    """float32 (ways x stops, L): stops on straight ways to random genes of the same categories."""
    ends = source.space.others_like(one, _WAYS, rng)
    return source.space.interpolate(one, ends, torch.tensor(_STOPS)[:, None, None]).flatten(0, 1)
