"""Which pictures show nearly the same, and a division of pictures in two that no such group lies across."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from diffgen.metrics.near_duplicates import directions_of
from diffgen.sampling import random_rows
from diffgen.types import BoolArray, Float32Array, Int64Array, UInt8Array

_ROWS = 512  # that are compared with a cell at once


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


def groups_of_relatives(batches: Iterable[UInt8Array], seeds: Int64Array, *, threshold: float) -> Int64Array:
    """The group of each picture: what is made from one seed image or is a near-duplicate is of one, and theirs are too.

    No pair of near-duplicates is missed. Of a batch that was gone through thumbnails alone stay in memory.

    Args:
        batches: uint8 (n, C, H, W) each, N pictures in all.
        seeds: int64 (N,), what each was made from; a negative number: from nothing that another was made from.
        threshold: in (-1, 1], see :class:`diffgen.metrics.near_duplicates.DistinctPictures`.

    Returns:
        int64 (N,), numbered from 0 in the order in which their first pictures come.
    """
    _, first, inverse = np.unique(seeds, return_index=True, return_inverse=True)
    groups = np.where(seeds < 0, np.arange(len(seeds)), first[inverse.reshape(-1)])
    if len(seeds):
        groups = _with_alike(groups, np.concatenate([directions_of(images) for images in batches]), threshold)
    # a group is called after its first picture
    return np.asarray(np.unique(groups, return_inverse=True)[1].reshape(-1), dtype=np.int64)


def _with_alike(groups: Int64Array, vectors: Float32Array, threshold: float) -> Int64Array:
    """The groups, called after their first rows, those joined that have a pair of near-duplicates between them."""
    close = CloseVectors(vectors, distance=float(np.sqrt(2 - 2 * threshold)))
    for centre, rows in zip(close.centres, close.cells, strict=True):
        like = rows[vectors[rows] @ vectors[centre] >= threshold]
        groups = _joined(groups, groups[like], np.full(len(like), groups[centre]))
    for rows, others in close.blocks():
        if (groups[others] == groups[rows[0]]).all():
            continue
        one, other = [], []
        for start in range(0, len(others), _ROWS):
            some = others[start : start + _ROWS]
            pairs = np.nonzero(vectors[some] @ vectors[rows].T >= threshold)
            ends = np.unique(np.stack([groups[some[pairs[0]]], groups[rows[pairs[1]]]]), axis=1)
            one.append(ends[0])
            other.append(ends[1])
        groups = _joined(groups, np.concatenate(one), np.concatenate(other))
    return groups


def _joined(groups: Int64Array, one: Int64Array, other: Int64Array) -> Int64Array:
    """The groups after each pair, int64 (n,) and (n,), has become one; it is called after the smaller name."""
    names, ends = np.unique(np.stack([one, other]), return_inverse=True)
    links = coo_matrix((np.ones(len(one), dtype=np.bool_), tuple(ends.reshape(2, -1))), shape=(len(names), len(names)))
    parts = connected_components(links, directed=False)[1]
    called = np.arange(len(groups))
    called[names] = names[np.unique(parts, return_index=True)[1]][parts]
    return np.asarray(called[groups], dtype=np.int64)


def divided(groups: Int64Array, labels: Int64Array, *, share: float, seed: int) -> BoolArray:
    """Which pictures are of the second, smaller part: of each label ``share`` at most, and of a group all or none.

    Groups are taken in random order as long as none of their labels gets more than its share, rounded.

    Args:
        groups: int64 (N,), from 0.
        labels: int64 (N,), from 0.
        share: 0..1.
        seed: of the order.

    Returns:
        bool (N,).
    """
    room = np.floor(share * np.bincount(labels) + 0.5).astype(np.int64)
    chosen = np.zeros(len(groups), dtype=np.bool_)
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups))[:-1])
    for group in np.random.default_rng(seed).permutation(len(members)):
        wanted = np.bincount(labels[members[group]], minlength=len(room))
        if (wanted <= room).all():
            room -= wanted
            chosen[members[group]] = True
    return chosen
