"""The triggers' images as a column: read part by part when first asked for, and never twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from diffgen.types import Int64Array, UInt8Array


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
        self._parts = list(parts)
        self._read: dict[int, UInt8Array] = {}
        self._ends = np.cumsum([part.rows for part in parts], dtype=np.int64)
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
        return ImageColumn([ImagePart(len(rows), lambda: self.at(rows))], self.shape)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def all(self) -> UInt8Array:
        """All images.

        Raises:
            UserError: a part cannot be read.
        """
        if self._all is None:
            parts = [self._part(number) for number in range(len(self._parts))]
            self._all = np.concatenate(parts) if parts else np.empty((0, *self.shape), dtype=np.uint8)
            self._read.clear()
            self._parts.clear()
        return self._all

    def at(self, rows: Int64Array) -> UInt8Array:
        """uint8 (len(rows), C, H, W): the images of some rows; only the parts that hold them are read.

        Raises:
            UserError: such a part cannot be read.
        """
        if self._all is not None:
            return self._all[rows]
        out = np.empty((len(rows), *self.shape), dtype=np.uint8)
        part_of = np.searchsorted(self._ends, rows, side="right")
        for number in np.unique(part_of).tolist():
            here = part_of == number
            first = self._ends[number] - self._parts[number].rows
            out[here] = self._part(number)[np.asarray(rows)[here] - first]
        return out

    def _part(self, number: int) -> UInt8Array:
        if number not in self._read:
            self._read[number] = self._parts[number].read()
        return self._read[number]
