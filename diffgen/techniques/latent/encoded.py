"""Real images as genes of a source, encoded when they are first asked for."""

from __future__ import annotations

import numpy as np
import torch

from diffgen.techniques.base import TechniqueContext
from diffgen.types import Float32Array, Int64Array

_BLOCK = 64  # images encoded at once


class EncodedImages:
    """Genes of some real images.

    Images are encoded in blocks that are cut out of a fixed order. So the last digits of an image's genes, which may
    depend on what shares a batch with it, are the same in a run that was resumed.

    Args:
        context: gives the source, the images and their labels.
        order: int64 (n,), different rows of the real images, in the order in which they will probably be asked for.
    """

    def __init__(self, context: TechniqueContext, order: Int64Array) -> None:
        self._context = context
        self._order = order
        self._places = np.full(len(context.need_real().images), -1, dtype=np.int64)
        self._places[order] = np.arange(len(order))
        self._blocks: dict[int, Float32Array] = {}

    def genes(self, rows: Int64Array) -> Float32Array:
        """float32 (n, L) for rows that are among the order."""
        places = self._places[rows]
        if (places < 0).any():
            raise ValueError("An image that is not among those to be encoded was asked for.")
        found = np.empty((len(rows), self._context.need_source().space.length), dtype=np.float32)
        for number in np.unique(places // _BLOCK).tolist():
            if number not in self._blocks:
                self._blocks[number] = self._encode(self._order[number * _BLOCK : (number + 1) * _BLOCK])
            here = places // _BLOCK == number
            found[here] = self._blocks[number][places[here] % _BLOCK]
        return found

    def _encode(self, rows: Int64Array) -> Float32Array:
        source, real = self._context.need_encoding_source(), self._context.need_real()

        def encode(part: torch.Tensor) -> torch.Tensor:
            own = part.numpy()
            labels = None if real.labels is None else torch.from_numpy(real.labels[own])
            return source.encode(torch.from_numpy(real.images[own]), labels)

        return np.asarray(self._context.memory.call(encode, torch.from_numpy(rows)).cpu().numpy(), dtype=np.float32)
