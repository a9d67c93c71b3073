"""Says which of many vectors have to be compared so that no pair of close ones is missed: far fewer than all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from diffgen.sampling import random_rows
from diffgen.types import Float32Array, Int64Array

_CHUNK = 4096  # vectors that are compared with all centres at once
_CELLS = 128  # whose visitors are in memory at once
_APART = 0.1  # distance of two centres at least: the plane between nearer ones is rounding
_SLACK = 1e-4  # of distances, for what float32 rounds


class CloseVectors:
    """Vectors in cells: some are centres, no two of them close, and each is in the cell of its nearest centre.

    The plane half-way between two centres parts their cells. Two vectors on its sides are at least as far apart as the
    one is from it and the other is from it: a vector is compared with another cell only where the plane is near enough,
    counted from itself and from the nearest vector of that cell.

    Args:
        vectors: float32 (N, D) of length 1, N at least 1.
        distance: that makes a pair close, Euclidean.

    Attributes:
        centres: int64 (P,), rows.
        cells: for each centre int64 (n,), the rows of its cell.
    """

    def __init__(self, vectors: Float32Array, *, distance: float) -> None:
        self._vectors, self._distance = vectors, distance + _SLACK
        self.centres = _apart(vectors, random_rows(len(vectors), int(2 * len(vectors) ** 0.5)), max(distance, _APART))
        self._standing = vectors[self.centres]
        self._gaps = np.sqrt(np.maximum(2 - 2 * (self._standing @ self._standing.T), 0))
        np.fill_diagonal(self._gaps, np.inf)
        chunks = (vectors[start : start + _CHUNK] for start in range(0, len(vectors), _CHUNK))
        nearest = np.concatenate([(chunk @ self._standing.T).argmax(axis=1) for chunk in chunks])
        ends = np.cumsum(np.bincount(nearest, minlength=len(self.centres)))
        self.cells: list[Int64Array] = np.split(np.argsort(nearest, kind="stable"), ends[:-1])

    def blocks(self) -> Iterator[tuple[Int64Array, Int64Array]]:
        """Rows of a cell, and those of this and the cells before it that may be close to one of them; cell after cell.

        Each close pair is in one of them.
        """
        # [i, j]: how near cell i comes to the plane between i and j
        reach = np.stack([self._margins(cell, slice(None)).min(axis=0) for cell in range(len(self.cells))])
        for start in range(0, len(self.cells), _CELLS):
            some = slice(start, min(len(self.cells), start + _CELLS))
            visitors = [[rows] for rows in self.cells[some]]
            for cell, rows in enumerate(self.cells[: some.stop]):
                near = self._margins(cell, some) + reach[some, cell] <= self._distance
                for column in np.flatnonzero(near.any(axis=0)):
                    if start + column > cell:
                        visitors[column].append(rows[near[:, column]])
            yield from zip(self.cells[some], map(np.concatenate, visitors), strict=True)

    def _margins(self, cell: int, others: slice) -> Float32Array:
        """float32 (n, P): how far a cell's vectors are from the planes between it and others; 0 for itself."""
        own = self._vectors[self.cells[cell]]
        nearer = (own @ self._standing[cell])[:, None] - own @ self._standing[others].T
        return np.asarray(nearer / self._gaps[cell, others], dtype=np.float32)


def _apart(vectors: Float32Array, rows: Int64Array, distance: float) -> Int64Array:
    """Those of some rows, ascending, that are no nearer to one another than ``distance``."""
    rows = np.sort(rows)
    near = vectors[rows] @ vectors[rows].T >= 1 - distance**2 / 2
    kept = np.zeros(len(rows), dtype=np.bool_)
    for place in range(len(rows)):
        kept[place] = not (near[place] & kept).any()
    return rows[kept]
