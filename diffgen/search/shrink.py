"""Shrinks triggers: finds the smallest step from an agreeing picture that still makes the models disagree.

Every trigger's genes are led toward those of the nearest picture on which the models agree. On the way lies a
border; by halving the way, two sets of genes are found on both sides of it whose pictures hardly differ. Close genes
need not draw close pictures (grain is drawn anew with every strength), so that of all pairs on both sides that were met
the one whose pictures differ least is kept. All triggers are halved at the same time, in whole batches.
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
        first_agreeing: uint8 (N, C, H, W), the agreeing picture that was aimed at in the beginning; the pair lies no
            further apart than this picture and the trigger that was given.
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
        batch_size: pictures that are made and asked about at once.
    """

    def judged(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        parts = []
        for batch in vectors.split(batch_size):
            drawn = source.draw(batch)
            parts.append((drawn.cpu(), *(each.cpu() for each in judge(drawn))))
        images, agrees, triggers = map(torch.cat, zip(*parts, strict=True))
        return images, agrees, triggers

    rng = torch.Generator().manual_seed(seed)
    found = torch.zeros(len(genes), dtype=torch.bool)
    low, high = genes.clone(), genes.clone()
    empty = torch.empty((0, *source.image_shape), dtype=torch.uint8)
    start, _, counts = judged(genes) if len(genes) else (empty, found, found)
    first = start.clone()
    with (progress or Progress()).stage("Looking for agreeing pictures", total=len(genes)) as task:
        for row, one in enumerate(genes):
            candidates = _ways(one, source, rng)
            images, agrees, _ = judged(candidates)
            if agrees.any():
                nearest = _apart(images[agrees], start[row : row + 1]).argmin()
                low[row], first[row], found[row] = candidates[agrees][nearest], images[agrees][nearest], True
            task.advance()
    rows = found.nonzero().squeeze(1)
    below, above, known = first.clone(), start.clone(), counts.clone()
    kept = _Pairs(low.clone(), high.clone(), first.clone(), start.clone())
    width = torch.where(counts, _apart(first, start), torch.inf)
    # 0 is the agreeing end of the part of the way that is left, 1 the triggering one
    share = torch.full((len(rows), 1), 0.5)
    with (progress or Progress()).stage("Halving the way", total=_HALVINGS) as task:
        for _ in range(_HALVINGS if len(rows) else 0):
            middle = source.space.interpolate(low[rows], high[rows], share)
            images, agrees, triggers = judged(middle)
            high[rows[triggers]], above[rows[triggers]] = middle[triggers], images[triggers]
            low[rows[agrees]], below[rows[agrees]] = middle[agrees], images[agrees]
            known[rows[triggers]] = True
            apart = _apart(below, above)
            better = known & (apart <= width)
            width = torch.where(better, apart, width)
            kept.take(better, low, high, below, above)
            # neither, such as a trigger that no filter accepts: try closer to where one is known
            share = torch.where((triggers | agrees)[:, None], torch.tensor(0.5), (1 + share) / 2)
            task.advance()
    return Steps(
        found=found.numpy(),
        agreeing=kept.below.numpy(),
        trigger=kept.above.numpy(),
        agreeing_genes=kept.low.numpy(),
        trigger_genes=kept.high.numpy(),
        first_agreeing=first.numpy(),
    )


@dataclass(frozen=True)
class _Pairs:
    """The narrowest pair of each trigger so far: genes ``low`` and ``high``, pictures ``below`` and ``above``."""

    low: torch.Tensor
    high: torch.Tensor
    below: torch.Tensor
    above: torch.Tensor

    def take(self, rows: torch.Tensor, *pairs: torch.Tensor) -> None:
        """Put the chosen rows, bool (N,), of other pairs in the place of these; in the order of the fields."""
        for own, other in zip((self.low, self.high, self.below, self.above), pairs, strict=True):
            own[rows] = other[rows]


def _apart(images: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """float32 (N,): how far pictures lie apart, for uint8 (N, C, H, W) and as many, or one."""
    return torch.linalg.vector_norm((images.float() - others.float()).flatten(1), dim=1)


def _ways(one: torch.Tensor, source: Source, rng: torch.Generator) -> torch.Tensor:
    """float32 (ways x stops, L): stops on straight ways to random genes of the same categories."""
    ends = source.space.others_like(one, _WAYS, rng)
    return source.space.interpolate(one, ends, torch.tensor(_STOPS)[:, None, None]).flatten(0, 1)
