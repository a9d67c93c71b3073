"""The triggers found so far: append-only, each image once, recognised by a hash of its bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from diffgen.types import Float32Array, Int64Array, UInt8Array

HASH_BYTES = 16
_BLOCK = 4096  # rows of image memory that are taken at once
PART_ROWS = 2048  # rows that are handed to the sink at once

Columns = dict[str, np.ndarray[Any, Any]]
Sink = Callable[[Mapping[str, np.ndarray[Any, Any]]], None]


def image_hashes(images: UInt8Array) -> list[bytes]:
    """The 16-byte BLAKE2b digest of each image's bytes, for uint8 (N, C, H, W)."""
    return [blake2b(image.tobytes(), digest_size=HASH_BYTES).digest() for image in images]


def digest_of(hashes: Iterable[bytes | np.ndarray[Any, Any]]) -> str:
    """One digest for images in their order, from the hash of each: uint8 rows of ``HASH_BYTES``, or bytes."""
    return blake2b(b"".join(map(bytes, hashes)), digest_size=HASH_BYTES).hexdigest()


@dataclass(frozen=True)
class Triggers:
    """A batch of triggers as the evaluator hands them over.

    Attributes:
        images: uint8 (N, C, H, W).
        probabilities: float32 (N, M, K) of the M models.
        divergence: float32 (N,).
        latents: float32 (N, latent_dim), or None when the technique has none.
        sources: int64 (N,), rows of the real images that they were made from, or None when they were drawn.
        generation: number of the generation (or of the batch) they were found in.
        query: int64 (N,), number of queries that had been asked when each image was, itself included.
    """

    images: UInt8Array
    probabilities: Float32Array
    divergence: Float32Array
    latents: Float32Array | None
    generation: int
    query: Int64Array
    sources: Int64Array | None = None


class Archive:
    """All triggers of a run, numbered 0, 1, 2, ... in the order in which they were found.

    Images, label pairs and hashes stay in memory; everything else goes to the sink in parts of at least
    ``PART_ROWS`` rows.

    Args:
        image_shape: (C, H, W).
        sink: takes the columns of a part (name -> array, all of one length); None keeps nothing but what is in memory.
    """

    def __init__(self, image_shape: tuple[int, int, int], *, sink: Sink | None = None) -> None:
        self._shape = image_shape
        self._sink = sink
        self._numbers: dict[bytes, int] = {}
        self._blocks: list[UInt8Array] = []
        self._label_blocks: list[Int64Array] = []
        self._pending: list[Columns] = []
        self._flushed = 0

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def written(self) -> int:
        """How many of them the sink was handed so far."""
        return self._flushed

    def add(self, triggers: Triggers) -> Int64Array:
        """Take in a batch; an image that is known already is not stored again.

        Returns:
            int64 (N,): the number of each image in the archive.
        """
        numbers = np.empty(len(triggers.images), dtype=np.int64)
        fresh: list[int] = []
        hashes = image_hashes(triggers.images)
        for row, digest in enumerate(hashes):
            known = len(self._numbers)
            numbers[row] = self._numbers.setdefault(digest, known)
            if numbers[row] == known:
                fresh.append(row)
        if fresh:
            rows = np.asarray(fresh)
            self._remember(triggers.images[rows], triggers.probabilities[rows].argmax(axis=2).astype(np.int64))
            part: Columns = {
                "images": triggers.images[rows],
                "hashes": np.frombuffer(b"".join(hashes[row] for row in fresh), np.uint8).reshape(-1, HASH_BYTES),
                "probabilities": triggers.probabilities[rows],
                "divergence": triggers.divergence[rows],
                "diversity": np.full(len(rows), np.nan, dtype=np.float32),
                "generation": np.full(len(rows), triggers.generation, dtype=np.int64),
                "query": triggers.query[rows],
            }
            if triggers.latents is not None:
                part["latents"] = triggers.latents[rows]
            if triggers.sources is not None:
                part["sources"] = triggers.sources[rows]
            self._pending.append(part)
        return numbers

    @property
    def _stored(self) -> int:
        return self._flushed + sum(len(part["query"]) for part in self._pending)

    def _remember(self, images: UInt8Array, labels: Int64Array) -> None:
        start, taken = self._stored, 0
        while taken < len(images):
            block, row = divmod(start + taken, _BLOCK)
            if block == len(self._blocks):
                self._blocks.append(np.empty((_BLOCK, *self._shape), dtype=np.uint8))
                self._label_blocks.append(np.empty((_BLOCK, labels.shape[1]), dtype=np.int64))
            count = min(_BLOCK - row, len(images) - taken)
            self._blocks[block][row : row + count] = images[taken : taken + count]
            self._label_blocks[block][row : row + count] = labels[taken : taken + count]
            taken += count

    def record_diversity(self, numbers: Int64Array, diversity: Float32Array) -> None:
        """Note the second objective of triggers that were added in the generation that runs; others keep theirs."""
        start = self._flushed
        for part in self._pending:
            count = len(part["query"])
            here = (numbers >= start) & (numbers < start + count)
            values = part["diversity"]
            rows = numbers[here] - start
            unset = np.isnan(values[rows])
            values[rows[unset]] = diversity[here][unset]
            start += count

    def images(self, numbers: Int64Array) -> UInt8Array:
        """uint8 (len(numbers), C, H, W)."""
        out = np.empty((len(numbers), *self._shape), dtype=np.uint8)
        for row, number in enumerate(numbers):
            out[row] = self._blocks[number // _BLOCK][number % _BLOCK]
        return out

    def labels(self) -> Int64Array:
        """int64 (len(self), M): what each model said of each trigger."""
        if not self._label_blocks:
            return np.empty((0, 2), dtype=np.int64)
        return np.concatenate(self._label_blocks)[: len(self)]

    def digest(self) -> str:
        """One digest of all images, in their order."""
        return digest_of(self._numbers)

    def flush(self, *, everything: bool = False) -> None:
        """Hand what waits to the sink: once a part is full, or ``everything``. Called between generations."""
        waiting = self._stored - self._flushed
        if waiting == 0 or (waiting < PART_ROWS and not everything):
            return
        columns = {name: np.concatenate([part[name] for part in self._pending]) for name in self._pending[0]}
        if self._sink is not None:
            self._sink(columns)
        self._pending.clear()
        self._flushed += waiting

    def restore(self, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Fill an empty archive with what the sink was handed earlier, in that order."""
        if len(self) or not columns:
            return
        images, probabilities = columns["images"], columns["probabilities"]
        self._remember(images, probabilities.argmax(axis=2).astype(np.int64))
        self._numbers = {digest.tobytes(): number for number, digest in enumerate(columns["hashes"])}
        self._flushed = len(images)
