"""Keeps what was made of images, so that it is not made again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b

import torch

_OVERHEAD = 1024  # bytes of a row beside its values: a tensor, a key and their places


class Remembered:
    """What a function makes of images, kept for those that were asked for last; several threads may ask.

    Args:
        make: of uint8 (N, C, H, W) a tensor on the CPU with a row for each, which depends on no other.
        size: bytes of what is kept, at most.
    """

    def __init__(self, make: Callable[[torch.Tensor], torch.Tensor], size: int) -> None:
        self._make = make
        self._size = size
        self._kept: OrderedDict[bytes, torch.Tensor] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """A row for each of uint8 (N, C, H, W), on the CPU, N > 0."""
        keys = [blake2b(image, digest_size=16).digest() for image in images.contiguous().numpy()]
        with self._lock:
            found = {key: self._kept[key] for key in keys if key in self._kept}
        # an image that is there twice is made once
        missing = {key: row for row, key in enumerate(keys) if key not in found}
        if missing:
            made = self._make(images[list(missing.values())])
            # a row of its own each: a view would keep the whole batch
            found |= {key: row.clone() for key, row in zip(missing, made, strict=True)}
        self._keep({key: found[key] for key in keys})
        return torch.stack([found[key] for key in keys])

    def _keep(self, rows: dict[bytes, torch.Tensor]) -> None:
        fit = self._size // (next(iter(rows.values())).nbytes + _OVERHEAD)
        with self._lock:
            for key, row in rows.items():
                self._kept[key] = row
                self._kept.move_to_end(key)
            while len(self._kept) > fit:
                self._kept.popitem(last=False)
