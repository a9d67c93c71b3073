"""The triggers' images as a column: read part by part when they are asked for, and not all kept in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from diffgen.types import Int64Array, UInt8Array

#: Bytes of parts that stay in memory after they were read; those of small runs all do.
KEPT = 2**27
BATCH = 2048  # images of :meth:`ImageColumn.batches`, as many as a part has


class ImagePart(NamedTuple):
    """Some consecutive images: how many, and what reads them."""

    rows: int
    read: Callable[[], UInt8Array]


class ImageColumn:
    """N images, uint8 (N, C, H, W).

    Args:
        parts: in their order.
        shape: (C, H, W).
    """

    def __init__(self, parts: Sequence[ImagePart], shape: tuple[int, ...]) -> None:
        self._parts = _Parts(list(parts), shape)
        self._rows: Int64Array | None = None  # of the parts, where it is not all of them
        self._all: UInt8Array | None = None
        self.shape = shape

    @classmethod
    def of(cls, images: UInt8Array) -> ImageColumn:
        """A column of images that are in memory."""
        column = cls([ImagePart(len(images), lambda: images)], images.shape[1:])
        column._all = images
        return column

    def chosen(self, rows: Int64Array) -> ImageColumn:
        """The images of some rows, read no earlier than these."""
        column = ImageColumn((), self.shape)
        column._parts, column._rows = self._parts, rows if self._rows is None else self._rows[rows]
        return column

    def __len__(self) -> int:
        return len(self._parts) if self._rows is None else len(self._rows)

    def all(self) -> UInt8Array:
        """All images, which stay in memory from then on.

        Raises:
            UserError: a part cannot be read.
        """
        if self._all is None:
            images = self._parts.all() if self._rows is None else self._parts.at(self._rows)
            self._parts, self._rows = _Parts([ImagePart(len(images), lambda: images)], self.shape), None
            self._all = images
        return self._all

    def at(self, rows: Int64Array) -> UInt8Array:
        """uint8 (len(rows), C, H, W): the images of some rows; only the parts that hold them are read.

        Raises:
            UserError: such a part cannot be read.
        """
        wanted = np.asarray(rows, dtype=np.int64)
        return self._parts.at(wanted if self._rows is None else self._rows[wanted])

    def batches(self, size: int = BATCH) -> Iterator[UInt8Array]:
        """All images in their order, uint8 (n, C, H, W) with n up to ``size``; no more than some parts are in memory.

        Raises:
            UserError: a part cannot be read.
        """
        for start in range(0, len(self), size):
            yield self.at(np.arange(start, min(len(self), start + size)))


class _Parts:
    """Reads parts when they are asked for; the last ones stay in memory, about ``KEPT`` bytes of them."""

    def __init__(self, parts: Sequence[ImagePart], shape: tuple[int, ...]) -> None:
        self._parts, self._shape = parts, shape
        self._ends = np.cumsum([part.rows for part in parts], dtype=np.int64)
        largest = max((part.rows for part in parts), default=0) * math.prod(shape)
        # as good for the threads of a page as for one; bound to no method, for a ring is freed late
        self._read = lru_cache(maxsize=max(1, KEPT // max(1, largest)))(partial(_read, parts))

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def all(self) -> UInt8Array:
        """All images."""
        return self._read(0) if len(self._parts) == 1 else self.at(np.arange(len(self)))

    def at(self, rows: Int64Array) -> UInt8Array:
        """uint8 (len(rows), C, H, W): some rows."""
        if len(self._parts) == 1:
            return self._read(0)[rows]
        out = np.empty((len(rows), *self._shape), dtype=np.uint8)
        if len(rows) == 0:
            return out
        part_of = np.searchsorted(self._ends, rows, side="right")
        order = np.argsort(part_of, kind="stable")
        numbers, starts = np.unique(part_of[order], return_index=True)
        for number, here in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            first = self._ends[number] - self._parts[number].rows
            out[here] = self._read(number)[rows[here] - first]
        return out


def _read(parts: Sequence[ImagePart], number: int) -> UInt8Array:
    return parts[number].read()
