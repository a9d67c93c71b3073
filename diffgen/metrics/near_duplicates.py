"""Pictures that a person would call the same, found among many."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F

from diffgen.types import Float32Array, Int64Array, UInt8Array

_THUMBNAIL = 16  # longest side, pixels
_CHUNK = 4096  # images that are made thumbnails of at once
_AT_ONCE = 2**22  # values that are floats at once
_BLOCK = 512  # images that are compared with all kept ones at once


def near_duplicate_of(images: UInt8Array, groups: Int64Array, *, threshold: float) -> Int64Array:
    """For each image the earliest kept image of its group that it is a near-duplicate of; itself when it is kept.

    See :class:`DistinctPictures`.

    Args:
        images: uint8 (N, C, H, W).
        groups: int64 (N,) or (N, D); images of different groups (label pairs, say) are never compared.
        threshold: in (-1, 1].

    Returns:
        int64 (N,), row numbers.
    """
    return DistinctPictures(threshold).add(images, groups, np.arange(len(images), dtype=np.int64))


class DistinctPictures:
    """Pictures that come batch after batch, each kept unless one like it was kept before.

    A picture is kept unless its thumbnail correlates (Pearson, over pixels and channels) at least ``threshold`` with
    that of a kept one of its group; among several the earliest counts. A later picture can therefore never change what
    was said of an earlier one, and it makes no difference how the pictures are divided into batches. Thumbnails are
    averages over at least 2 x 2 pixels, so that grain does not make two pictures of one. A picture of one colour has no
    correlation; it is like any other of one colour.

    Args:
        threshold: in (-1, 1].
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._groups: dict[tuple[int, ...], _Kept] = {}

    @property
    def kept(self) -> Int64Array:
        """int64 (n,), ascending: the numbers of the pictures that were kept."""
        numbers = [each.numbers[: each.count] for each in self._groups.values()]
        return np.sort(np.concatenate(numbers)) if numbers else np.empty(0, dtype=np.int64)

    def add(self, images: UInt8Array, groups: Int64Array, numbers: Int64Array) -> Int64Array:
        """Go through further pictures, in their order.

        Args:
            images: uint8 (N, C, H, W).
            groups: int64 (N,) or (N, D); pictures of different groups are never compared.
            numbers: int64 (N,), what the pictures are called.

        Returns:
            int64 (N,): the number of the kept picture that each is like; its own when it is kept.
        """
        leaders = np.array(numbers, dtype=np.int64)
        for start in range(0, len(images), _CHUNK):
            part = slice(start, start + _CHUNK)
            vectors = directions_of(images[part])
            for kept, rows in self._by_group(groups[part], vectors.shape[1]):
                leaders[start + rows] = kept.add(vectors[rows], leaders[start + rows], self._threshold)
        return leaders

    def restore(self, images: UInt8Array, groups: Int64Array, numbers: Int64Array) -> None:
        """Keep those that were :attr:`kept` before, without comparing them again; arguments as for :meth:`add`."""
        for start in range(0, len(images), _CHUNK):
            part = slice(start, start + _CHUNK)
            vectors = directions_of(images[part])
            for kept, rows in self._by_group(groups[part], vectors.shape[1]):
                kept.keep(vectors[rows], numbers[start + rows])

    def _by_group(self, groups: Int64Array, width: int) -> Iterator[tuple[_Kept, Int64Array]]:
        keys, inverse = np.unique(groups.reshape(len(groups), -1), axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        order = np.argsort(inverse, kind="stable")
        members = np.split(order, np.flatnonzero(np.diff(inverse[order])) + 1)
        for key, rows in zip(map(tuple, keys.tolist()), members, strict=True):
            if key not in self._groups:
                self._groups[key] = _Kept(width)
            yield self._groups[key], rows


class _Kept:
    """The kept pictures of one group: float32 ``vectors`` and int64 ``numbers``, of which ``count`` rows are in use."""

    def __init__(self, width: int) -> None:
        self.vectors = np.empty((0, width), dtype=np.float32)
        self.numbers = np.empty(0, dtype=np.int64)
        self.count = 0

    def keep(self, vectors: Float32Array, numbers: Int64Array) -> None:
        """Keep more; memory grows by doubling, since pictures often come one at a time."""
        needed = self.count + len(vectors)
        if needed > len(self.numbers):
            room = max(needed, 2 * len(self.numbers)) - self.count
            self.vectors = np.concatenate([self.vectors[: self.count], np.empty((room, vectors.shape[1]), np.float32)])
            self.numbers = np.concatenate([self.numbers[: self.count], np.empty(room, np.int64)])
        self.vectors[self.count : needed] = vectors
        self.numbers[self.count : needed] = numbers
        self.count = needed

    def add(self, vectors: Float32Array, numbers: Int64Array, threshold: float) -> Int64Array:
        """int64 (N,): the number of the kept picture that each is like; its own when it is kept."""
        leaders = numbers.copy()
        for start in range(0, len(vectors), _BLOCK):
            block, names = vectors[start : start + _BLOCK], numbers[start : start + _BLOCK]
            found = leaders[start : start + _BLOCK]
            alike = block @ self.vectors[: self.count].T >= threshold
            known = np.flatnonzero(alike.any(axis=1))
            if len(known):
                found[known] = self.numbers[alike[known].argmax(axis=1)]
            # within the block one after the other, on a small matrix
            within = block @ block.T >= threshold
            fresh = np.zeros(len(block), dtype=bool)
            for row in np.setdiff1d(np.arange(len(block)), known):
                near = within[row] & fresh
                if near.any():
                    found[row] = names[near.argmax()]
                else:
                    fresh[row] = True
            self.keep(block[fresh], names[fresh])
        return leaders


def directions_of(images: UInt8Array) -> Float32Array:
    """float32 (N, D): thumbnails with mean 0 and length 1; for those of one colour, one and the same vector.

    Two pictures are near-duplicates where the product of theirs is at least the threshold.

    Args:
        images: uint8 (N, C, H, W).
    """
    _, _, height, width = images.shape
    factor = max(2, -(-max(height, width) // _THUMBNAIL)) if min(height, width) >= 2 else 1
    small = torch.empty(len(images), images.shape[1] * -(-height // factor) * -(-width // factor))
    size = max(1, _AT_ONCE // math.prod(images.shape[1:]))  # as floats they are four times as large
    for part, into in zip(torch.from_numpy(images).split(size), small.split(size), strict=True):
        into.copy_(F.avg_pool2d(part.to(torch.float32), factor, ceil_mode=True).flatten(1))
    centred = small - small.mean(dim=1, keepdim=True)
    length = torch.linalg.vector_norm(centred, dim=1, keepdim=True)
    plain = torch.zeros_like(centred)
    # an extra axis holds those without a direction
    directions = torch.where(length > 1e-3, centred / length.clamp_min(1e-3), plain)
    return np.asarray(torch.cat([directions, (length <= 1e-3).to(torch.float32)], dim=1).numpy())
