"""The triggers' images as a column: read part by part when they are asked for, and not all kept in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from diffgen.sampling import at_once
from diffgen.types import Int64Array, UInt8Array

#: Bytes of parts that stay in memory after they were read; those of small runs all do.
KEPT = 2**27
BATCH = 2048  # images of :meth:`ImageColumn.batches`, as many as a part has


class ImagePart(NamedTuple):
    """Some consecutive images: how many, and what reads them."""

    rows: int
    read: Callable[[], UInt8Array]


class ImageColumn:
    """N images, uint8 (N, C, H, W); of the parts that were read the last ones stay in memory, about ``KEPT`` bytes.

    Args:
        parts: in their order.
        shape: (C, H, W).
    """

    def __init__(self, parts: Sequence[ImagePart], shape: tuple[int, ...]) -> None:
        self.shape = shape
        self._ends = np.cumsum([part.rows for part in parts], dtype=np.int64)
        self._rows: Int64Array | None = None  # of the parts, where it is not all of them
        self._all: UInt8Array | None = None
        largest = max((part.rows for part in parts), default=0) * math.prod(shape)
        # as good for the threads of a page as for one; bound to no method, for a ring is freed late
        self._read = lru_cache(maxsize=max(1, KEPT // max(1, largest)))(partial(_read, list(parts)))

    @classmethod
    def of(cls, images: UInt8Array) -> ImageColumn:
        """A column of images that are in memory."""
        column = cls([ImagePart(len(images), lambda: images)], images.shape[1:])
        column._all = images
        return column

    def chosen(self, rows: Int64Array) -> ImageColumn:
        """The images of some rows, read no earlier than these."""
        column = copy(self)
        column._rows, column._all = rows if self._rows is None else self._rows[rows], None
        return column

    def __len__(self) -> int:
        if self._rows is not None:
            return len(self._rows)
        return int(self._ends[-1]) if len(self._ends) else 0

    def all(self) -> UInt8Array:
        """All images, which stay in memory from then on. UserError if a part cannot be read."""
        if self._all is None:
            whole = self._rows is None and len(self._ends) == 1
            vars(self).update(vars(ImageColumn.of(self._read(0) if whole else self.at(np.arange(len(self))))))
        assert self._all is not None
        return self._all

    def at(self, rows: Int64Array) -> UInt8Array:
        """uint8 (len(rows), C, H, W): the images of some rows; only the parts that hold them are read.

        Raises:
            UserError: such a part cannot be read.
        """
        wanted = np.asarray(rows, dtype=np.int64)
        wanted = wanted if self._rows is None else self._rows[wanted]
        if len(self._ends) == 1:
            return self._read(0)[wanted]
        out = np.empty((len(wanted), *self.shape), dtype=np.uint8)
        part_of = np.searchsorted(self._ends, wanted, side="right")
        order = np.argsort(part_of, kind="stable")
        numbers, starts = np.unique(part_of[order], return_index=True)
        for number, here in zip(numbers.tolist(), np.split(order, starts[1:]) if len(order) else (), strict=True):
            first = self._ends[number - 1] if number else 0
            out[here] = self._read(number)[wanted[here] - first]
        return out

    def batches(self, most: int = BATCH) -> Iterator[UInt8Array]:
        """All images in their order, uint8 (n, C, H, W) with n up to ``most``, of large ones fewer.

        No more than some parts are in memory.

        Raises:
            UserError: a part cannot be read.
        """
        size = at_once(most, self.shape)
        for start in range(0, len(self), size):
            yield self.at(np.arange(start, min(len(self), start + size)))


def _read(parts: Sequence[ImagePart], number: int) -> UInt8Array:
    return parts[number].read()
