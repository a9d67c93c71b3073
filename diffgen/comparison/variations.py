"""Random variations of the real images that keep their label: pictures that no search has chosen.

A rate on such pictures speaks of the models; one on what a search found speaks of the search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from diffgen.comparison.plan import Prepared
from diffgen.errors import RunError
from diffgen.features.jury import NO_LABEL
from diffgen.sources.draws import UnsearchedDraws
from diffgen.sources.seeds import SeedsFamily, SeedsSource
from diffgen.types import Int64Array, UInt8Array

_BATCH = 1024


@dataclass(frozen=True, eq=False)
class Variations:
    """One variation each of N real images, as far as the jury still gives it the label of the image.

    Attributes:
        images: uint8 (N, C, H, W).
        labels: int64 (N,), those of the real images that they were made from.
        drawn: how many were made; the jury did not recognise the rest.
    """

    images: UInt8Array
    labels: Int64Array
    drawn: int


def vary(prepared: Prepared, count: int) -> Variations:
    """Up to ``count`` random variations: the operators of the source ``seeds``, with strengths in their ranges.

    Each is made from another real image, so that no two depend on each other. Neither images nor strengths are those
    that a search draws, whatever its seed.

    Args:
        prepared: has a jury. Without labels, an image has the name that the jury gives it, if it recognises it.
        count: of variations.
    """
    recogniser, images = prepared.recogniser, prepared.images.images
    assert recogniser is not None
    labels = prepared.images.labels
    if labels is None:
        parts = [recogniser.read(torch.from_numpy(batch)) for batch in _batches(images)]
        labels = np.concatenate([np.where(part.recognised, part.named, NO_LABEL) for part in parts])
    source = SeedsFamily().prepare(prepared.split, prepared.config, prepared.context).source
    if not isinstance(source, SeedsSource):
        raise RunError("There are no real images to be varied.")
    rows = np.random.default_rng(np.random.SeedSequence([prepared.config.seed, 1])).permutation(len(labels))
    rows, draws = rows[labels[rows] != NO_LABEL], UnsearchedDraws(prepared.config.seed)
    kept_images: list[UInt8Array] = []
    kept_labels: list[Int64Array] = []
    kept = drawn = 0
    wanted = min(count, len(rows))
    with prepared.progress.stage("Making variations of real images", total=wanted) as task:
        while kept < count and drawn < len(rows):
            seeds = rows[drawn : drawn + _BATCH]
            genes = source.space.sample(len(seeds), draws)
            genes[:, source.space.continuous] = seeds  # the column of the seed
            for part in torch.from_numpy(genes).split(prepared.batch_size):
                made, of = source.draw(part).cpu(), labels[rows[drawn : drawn + len(part)]]
                recognised = np.flatnonzero(recogniser.read(made, of).recognised)[: count - kept]
                kept_images.append(made[torch.from_numpy(recognised)].numpy())
                kept_labels.append(of[recognised])
                # of a part that was not needed to its end only what came before the last one kept
                drawn += len(part) if len(recognised) < count - kept else int(recognised[-1]) + 1
                kept += len(recognised)
                task.reach(wanted * max(kept / count, drawn / len(rows)))
                if kept == count:
                    break
    shape = prepared.images.images.shape[1:]
    return Variations(
        np.concatenate(kept_images) if kept_images else np.empty((0, *shape), dtype=np.uint8),
        np.concatenate(kept_labels) if kept_labels else np.empty(0, dtype=np.int64),
        drawn,
    )


def _batches(images: UInt8Array) -> Iterator[UInt8Array]:
    """Consecutive images, of a map in memory of their own; those in memory all at once."""
    if not isinstance(images, np.memmap):
        yield images
        return
    for start in range(0, len(images), _BATCH):
        yield np.array(images[start : start + _BATCH])
