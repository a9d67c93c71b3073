"""What the selector learns from: labelled triggers, each with the model that is right on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diffgen.errors import UserError
from diffgen.types import Int64Array

A, B, NEITHER = 0, 1, 2
#: Fewer of one kind teach nothing that could be checked.
MIN_OF_A_KIND = 5


@dataclass(frozen=True)
class Examples:
    """N labelled triggers that the selector is trained on.

    Attributes:
        rows: int64 (N,), among the triggers that were given.
        targets: int64 (N,): ``A``, ``B`` or ``NEITHER``, which model is right.
        right: bool (N, 2).
        groups: int64 (N,), the behaviour that each belongs to.
        both_wrong: labelled triggers on which neither is right, whether they are among the N or not.
    """

    rows: Int64Array
    targets: Int64Array
    right: np.ndarray[tuple[int, int], np.dtype[np.bool_]]
    groups: Int64Array
    both_wrong: int

    def __len__(self) -> int:
        return len(self.rows)


def make_examples(
    labels: Int64Array,
    said: Int64Array,
    behaviours: Int64Array,
    *,
    both_wrong: bool = False,
    limit: int | None = None,
    seed: int = 0,
) -> Examples:
    """Choose the triggers that teach something.

    Args:
        labels: int64 (n,), what each picture shows; negative where that is not known or none of the classes.
        said: int64 (n, 2), what A and B say; never the same.
        behaviours: int64 (n, 3).
        both_wrong: keep those on which neither is right. The paper leaves them out: whom to trust does not matter.
        limit, seed: if there are more than ``limit`` examples, a random sample of that size is used.

    Raises:
        UserError: there are no labels, or too few on which A, or B, is right.
    """
    if not (labels >= 0).any():
        raise UserError("No trigger of the run has a label; label some with 'diffgen label' first.")
    right = said == labels[:, None]
    targets = np.select([right[:, A], right[:, B]], [A, B], NEITHER)
    known = labels >= 0
    kept = known & ((targets != NEITHER) | both_wrong)
    if limit is not None and kept.sum() > limit:
        drawn = np.random.default_rng(seed).choice(np.flatnonzero(kept), limit, replace=False)
        kept = np.isin(np.arange(len(kept)), drawn)
    for target, name in ((A, "A"), (B, "B")):
        count = int((targets[kept] == target).sum())
        if count < MIN_OF_A_KIND:
            raise UserError(
                f"Of {int(known.sum()):,} labelled triggers, model {name} is right on {count:,} only, so there is "
                f"nothing to tell apart (at least {MIN_OF_A_KIND} are needed); label more, or trust the other model."
            )
    _, groups = np.unique(behaviours[kept], axis=0, return_inverse=True)
    return Examples(
        rows=np.flatnonzero(kept),
        targets=targets[kept],
        right=right[kept],
        groups=groups.reshape(-1),
        both_wrong=int((known & (targets == NEITHER)).sum()),
    )
