"""Which classes a candidate has become worst at. Why the intervals and not the values decide: docs/decisions/017."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diffgen.gate.values import ClassDrop
from diffgen.metrics.intervals import simultaneous_paired_intervals
from diffgen.types import Int64Array


def worst_classes(said: Int64Array, labels: Int64Array, names: Sequence[str]) -> tuple[ClassDrop, ClassDrop] | None:
    """The class whose loss of accuracy is shown to be the largest, and the one whose loss is; often the same.

    The first is the one whose interval has the highest lower end, so that no class of a few images takes the place of
    one that was lost for certain. Where no class is shown to have lost anything, it is the one that lost the largest
    share of its images; of equal ones the first. The second may be a class of so few images that they show nothing.

    Args:
        said: int64 (N, 2), labels that base and candidate give to N images.
        labels: int64 (N,), the true ones, 0..K-1.
        names: K names.

    Returns:
        None for no images.
    """
    if len(labels) == 0:
        return None
    base, candidate = (said == labels[:, None]).T

    def per_class(chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Int64Array:
        return np.bincount(labels[chosen], minlength=len(names))

    of = np.bincount(labels, minlength=len(names))
    base_right, candidate_right, only_base = per_class(base), per_class(candidate), per_class(base & ~candidate)
    present = np.flatnonzero(of)
    lost, won, images = (column[present] for column in (only_base, candidate_right - (base_right - only_base), of))
    low, _ = simultaneous_paired_intervals(lost, won, images, among=len(present))
    # the last key counts first; lexsort is stable, so that the first of equal classes comes first
    share = -(lost - won) / images
    shown, largest = (
        ClassDrop(
            base_right=int(base_right[label]),
            candidate_right=int(candidate_right[label]),
            only_base=int(only_base[label]),
            of=int(of[label]),
            label=int(label),
            name=names[label],
            classes=len(present),
        )
        for label in present[[np.lexsort((share, -np.maximum(low, 0.0)))[0], share.argmin()]]
    )
    return shown, largest
