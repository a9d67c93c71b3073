"""The triggers found so far: append-only, each image once, recognised by a hash of its bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from diffgen.features.shrinking import shrunk, shrunk_shape
from diffgen.runs.images import ImageColumn, ImagePart
from diffgen.runs.triggers import TriggerTable, digest_of
from diffgen.sampling import at_once
from diffgen.types import Float32Array, Int64Array, UInt8Array

_BLOCK = 4096  # rows of image memory that are taken at once
PART_ROWS = 2048  # rows that are handed to the sink at once

Sink = Callable[[TriggerTable], None]


class Archive:
    """All triggers of a run, numbered 0, 1, 2, ... in the order in which they were found.

    Images, label pairs and hashes stay in memory, large images as small as they are compared; everything else goes to
    the sink in parts of at least ``PART_ROWS`` rows, fewer of large images.

    Args:
        image_shape: (C, H, W).
        sink: takes a part; None keeps nothing but what is in memory.
    """

    def __init__(self, image_shape: tuple[int, int, int], *, sink: Sink | None = None) -> None:
        self.image_shape = image_shape
        self._sink = sink
        self._numbers: dict[bytes, int] = {}
        self._blocks: list[torch.Tensor] = []
        self._whole = shrunk_shape(image_shape) == image_shape
        self._restored: ImageColumn | None = None
        self._labels: list[Int64Array] = []
        self._pending: list[TriggerTable] = []
        self._flushed = 0

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def written(self) -> int:
        """How many of them the sink was handed so far."""
        return self._flushed

    def add(self, found: TriggerTable) -> Int64Array:
        """Take in a batch; an image that is known already is not stored again.

        Returns:
            int64 (N,): the number of each image in the archive.
        """
        numbers = np.empty(len(found), dtype=np.int64)
        fresh: list[int] = []
        for row, digest in enumerate(map(bytes, found.hashes)):
            known = len(self._numbers)
            numbers[row] = self._numbers.setdefault(digest, known)
            if numbers[row] == known:
                fresh.append(row)
        if fresh:
            part = found[np.asarray(fresh)]
            self._remember(part)
            self._pending.append(part)
        return numbers

    @property
    def _stored(self) -> int:
        return self._flushed + sum(map(len, self._pending))

    def _remember(self, part: TriggerTable) -> None:
        first = self._stored
        for batch in part.image_column.batches():
            images, taken = shrunk(torch.from_numpy(batch)), 0
            while taken < len(images):
                block, row = divmod(first, _BLOCK)
                if block == len(self._blocks):
                    self._blocks.append(images.new_empty((_BLOCK, *images.shape[1:])))
                count = min(_BLOCK - row, len(images) - taken)
                self._blocks[block][row : row + count] = images[taken : taken + count]
                first, taken = first + count, taken + count
        self._labels.append(part.labels)

    def record_diversity(self, numbers: Int64Array, diversity: Float32Array) -> None:
        """Note the second objective of triggers that were added in the generation that runs; others keep theirs."""
        start = self._flushed
        for part in self._pending:
            count = len(part)
            here = (numbers >= start) & (numbers < start + count)
            values = part.diversity
            rows = numbers[here] - start
            unset = np.isnan(values[rows])
            values[rows[unset]] = diversity[here][unset]
            start += count

    def compared(self, numbers: Int64Array) -> torch.Tensor:
        """Some images as they are compared: as :func:`diffgen.features.shrinking.shrunk` gives them."""
        if len(numbers) == 0:
            return shrunk(torch.empty((0, *self.image_shape), dtype=torch.uint8))
        return torch.stack([self._blocks[number // _BLOCK][number % _BLOCK] for number in numbers.tolist()])

    def images(self, numbers: Int64Array) -> UInt8Array:
        """uint8 (len(numbers), C, H, W); large ones only right after :meth:`restore`."""
        column = self.image_column() if self._restored is None else self._restored
        if column is None:
            raise RuntimeError("large images lie with the sink alone")
        return column.at(numbers)

    def labels(self) -> Int64Array:
        """int64 (len(self), M): what each model said of each trigger; of an empty archive nobody knows M, it is 2."""
        return np.concatenate(self._labels) if self._labels else np.empty((0, 2), dtype=np.int64)

    def digest(self) -> str:
        """One digest of all images, in their order."""
        return digest_of(self._numbers)

    def flush(self, *, everything: bool = False) -> None:
        """Hand what waits to the sink: once a part is full, or ``everything``. Called between generations."""
        waiting = self._stored - self._flushed
        if waiting == 0 or (waiting < at_once(PART_ROWS, self.image_shape) and not everything):
            return
        if self._sink is not None:
            self._sink(TriggerTable.joined(self._pending))
        self._pending.clear()
        self._flushed += waiting

    def restore(self, table: TriggerTable) -> None:
        """Fill an empty archive with what the sink was handed earlier, in that order."""
        if len(self) or len(table) == 0:
            return
        self._remember(table)
        self._numbers = {digest.tobytes(): number for number, digest in enumerate(table.hashes)}
        self._flushed = len(table)
        self._restored = None if self._whole else table.image_column

    def image_column(self) -> ImageColumn | None:
        """All images, which stay in memory: whoever has read the other columns need not read these.

        None for large ones: what the sink was handed is read.
        """
        count = len(self)
        if count and not self._whole:
            return None
        parts = [
            ImagePart(min(_BLOCK, count - start), partial(_front, block, count - start))
            for start, block in zip(range(0, count, _BLOCK), self._blocks, strict=True)
        ]
        return ImageColumn(parts, self.image_shape)


def _front(block: torch.Tensor, rows: int) -> UInt8Array:
    return block[:rows].numpy()
