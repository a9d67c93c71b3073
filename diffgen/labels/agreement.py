"""Merges the labels of several annotators by majority, and measures how far they agree."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from diffgen.labels.store import UNLABELLED
from diffgen.types import Int64Array


@dataclass(frozen=True)
class Agreement:
    """The merged word of M annotators on N pictures.

    Attributes:
        labels: int64 (N,), ``UNLABELLED`` where no label has more votes than every other.
        ties: pictures with votes but without such a label.
        unanimous: pictures on which all who labelled them say the same.
        kappas: Cohen's kappa of each two annotators over the pictures that both labelled, in order of pairs; None
            where it is not defined (both gave one and the same label to everything, or share no picture).
    """

    labels: Int64Array
    ties: int
    unanimous: int
    kappas: tuple[float | None, ...]

    @property
    def kappa(self) -> float | None:
        """Mean over the pairs of annotators for which it is defined."""
        defined = [value for value in self.kappas if value is not None]
        return float(np.mean(defined)) if defined else None


def merge(annotations: Int64Array) -> Agreement:
    """Majority of what annotators say.

    Args:
        annotations: int64 (M, N), ``UNLABELLED`` where an annotator said nothing.
    """
    labels = np.full(annotations.shape[1], UNLABELLED, dtype=np.int64)
    ties = unanimous = 0
    for column, votes in enumerate(annotations.T.tolist()):
        counted = Counter(vote for vote in votes if vote != UNLABELLED).most_common(2)
        if not counted:
            continue
        unanimous += len(counted) == 1
        if len(counted) == 2 and counted[0][1] == counted[1][1]:
            ties += 1
        else:
            labels[column] = counted[0][0]
    kappas = tuple(_kappa(a, b) for a, b in combinations(annotations, 2))
    return Agreement(labels, ties, unanimous, kappas)


def _kappa(a: Int64Array, b: Int64Array) -> float | None:
    from sklearn.metrics import cohen_kappa_score

    both = (a != UNLABELLED) & (b != UNLABELLED)
    if len(np.unique(np.concatenate([a[both], b[both]]))) < 2:
        return None  # chance agreement is 1, and kappa 0 / 0
    return float(cohen_kappa_score(a[both], b[both]))
