"""How often A says one class and B another: the pairs that occur, and not a table of all that there could be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from diffgen.types import Int64Array

#: With at most this many classes the counts are a matrix in results.json and in the report, else a list of pairs.
MATRIX_CLASSES = 30
PairsJson: TypeAlias = Sequence[Sequence[int]] | Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class LabelPairs:
    """Counts of ordered label pairs.

    Attributes:
        classes: K, how many classes there are.
        pairs: int64 (P, 2), ascending: what A says and what B says.
        counts: int64 (P,), how often each occurs, at least once.
    """

    classes: int
    pairs: Int64Array
    counts: Int64Array

    @classmethod
    def of(cls, labels: Int64Array, classes: int) -> LabelPairs:
        """Those of the first two models, for int64 (N, M) labels in 0..``classes`` - 1."""
        pairs, counts = np.unique(labels[:, :2], axis=0, return_counts=True)
        return cls(classes, pairs.reshape(-1, 2).astype(np.int64), counts.astype(np.int64))

    @classmethod
    def of_matrix(cls, matrix: Sequence[Sequence[int]] | Int64Array) -> LabelPairs:
        """Those of a whole table, (K, K), rows are what A says."""
        table = np.asarray(matrix, dtype=np.int64).reshape(len(matrix), len(matrix))
        pairs = np.argwhere(table)
        return cls(len(table), pairs.astype(np.int64), table[tuple(pairs.T)])

    @classmethod
    def read(cls, value: PairsJson, classes: int) -> LabelPairs:
        """What :meth:`as_json` gave, in this version or an earlier one, which wrote matrices of any size.

        Raises:
            KeyError, TypeError, ValueError: it cannot be.
        """
        if not isinstance(value, Mapping):
            return cls.of_matrix(value)
        rows = np.asarray(value["pairs"], dtype=np.int64).reshape(-1, 3)
        rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
        return cls(classes, rows[:, :2], rows[:, 2])

    def as_json(self) -> PairsJson:
        """A matrix as lists for few classes; for many ``{"pairs": [[a, b, count], ...]}``, the most frequent first."""
        if self.classes <= MATRIX_CLASSES:
            rows: list[list[int]] = self.matrix().tolist()
            return rows
        order = self.by_frequency()
        return {"pairs": np.column_stack([self.pairs, self.counts])[order].tolist()}

    def matrix(self) -> Int64Array:
        """int64 (K, K): row is what A says, column what B says; for few classes."""
        table = np.zeros((self.classes, self.classes), dtype=np.int64)
        table[tuple(self.pairs.T)] = self.counts
        return table

    def by_frequency(self) -> Int64Array:
        """int64 (P,): the rows of the pairs, the most frequent first, of equal ones the first."""
        return np.argsort(-self.counts, kind="stable").astype(np.int64)

    @property
    def total(self) -> int:
        """How many pictures were counted."""
        return int(self.counts.sum())

    def __len__(self) -> int:
        return len(self.counts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelPairs):
            return NotImplemented
        return self.classes == other.classes and all(
            np.array_equal(mine, theirs) for mine, theirs in ((self.pairs, other.pairs), (self.counts, other.counts))
        )
