"""Which labelled triggers belong on one side where a selector is judged: a forest knows by heart what it has seen."""

from __future__ import annotations

import numpy as np

from diffgen.metrics.near_duplicates import directions_of
from diffgen.metrics.relatives import groups_of_relatives
from diffgen.origins import NO_SEED
from diffgen.runs.triggers import TriggerTable
from diffgen.selector.examples import Examples
from diffgen.types import BoolArray, Int64Array


def divisions(finds: TriggerTable, examples: Examples, *, threshold: float) -> dict[str, Int64Array | None]:
    """Name of each way to divide the N examples -> int64 (N,), the group of each; None: each is a group.

    "random" is the published one. "by behaviour" and, where finds are made from real images, "by real image" hold
    near-duplicates together, too: a search finds much the same picture in several behaviours, and from several images.

    Args:
        finds: that the examples are rows of.
        examples: N.
        threshold: in (-1, 1], see :class:`diffgen.metrics.near_duplicates.DistinctPictures`.

    Raises:
        UserError: a part of the run cannot be read.
    """
    chosen = finds[examples.rows]
    own = {"by behaviour": examples.groups}
    if chosen.seeds is not None and (chosen.seeds != NO_SEED).any():
        own["by real image"] = chosen.seeds
    column = chosen.image_column
    alike = {name: groups_of_relatives(column.batches(), of, threshold=threshold) for name, of in own.items()}
    return {"random": None, **alike}


def made_from(finds: TriggerTable, examples: Examples, images: Int64Array, *, threshold: float) -> BoolArray:
    """bool (N,): the examples that are made from some real images, and near-duplicates of these examples.

    What an operator leads towards such an image (only where it is named in the settings) counts as made from its seed
    alone.

    Args:
        finds, examples, threshold: as for :func:`divisions`.
        images: int64, rows of the real images.

    Raises:
        UserError: a part of the run cannot be read.
    """
    chosen = finds[examples.rows]
    own = np.isin(np.full(len(chosen), NO_SEED) if chosen.seeds is None else chosen.seeds, images)
    if not own.any():
        return own
    of_these = directions_of(chosen[own].images)
    batches = chosen.image_column.batches()
    return np.concatenate([(directions_of(some) @ of_these.T >= threshold).any(axis=1) for some in batches]) | own
