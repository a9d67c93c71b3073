"""Images that are too many for the memory: one file in the cache that the system maps, and reads where it is looked at.

The file is a plain ``.npy``, uint8 (N, C, H, W), so that other programs can read it too.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np

from diffgen.types import UInt8Array

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = 128  # bytes, whatever stands in it: it is written again when the number of images is known
_LET_GO = 128 * 2**20  # bytes that were looked at, after which the system is told that they are not needed


class ImageMap(np.memmap):
    """A read-only map of images, uint8 (N, C, H, W), whose pages do not stay in the memory of the process.

    What is looked at counts as memory of the process until the system wants it back, so that one pass over all images
    would look as if all of them had been loaded. Every so often the pages are let go; arrays that share memory with the
    map stay valid, they are read from the disk's cache again.

    Attributes:
        digests: what :func:`diffgen.types.pixels_digest` gives, by :func:`diffgen.types.labels_digest` of the labels: a
            pass over all pixels, which is not made at every start.
    """

    digests: Mapping[str, str] = MappingProxyType({})
    _looked_at = 0

    def __getitem__(self, rows: Any) -> Any:
        found = np.asarray(super().__getitem__(rows))
        self._looked_at += found.nbytes
        if self._looked_at > _LET_GO:
            self.let_go()
        return found

    def let_go(self) -> None:
        """Tell the system that the pages are not needed for now."""
        self._looked_at = 0
        pages = self._mmap  # type: ignore[attr-defined]
        if pages is not None and hasattr(pages, "madvise") and hasattr(mmap, "MADV_DONTNEED"):
            pages.madvise(mmap.MADV_DONTNEED)


def map_images(path: Path, shape: tuple[int, ...]) -> ImageMap:
    """The images of a file that :class:`ImageFile` wrote, which counts as in use until the map is gone.

    Args:
        path: the file.
        shape: (N, C, H, W), as it is known from elsewhere.

    Raises:
        OSError: it is missing or cannot be read.
        ValueError: it does not hold images of this shape.
    """
    with path.open("rb") as file:
        if file.read(_HEADER) != _header(shape):
            raise ValueError(f"it holds no images of shape {shape}")
        if os.fstat(file.fileno()).st_size != _HEADER + math.prod(shape):
            raise ValueError("it is cut off")
        _hold(file)
        return ImageMap(file, dtype=np.uint8, mode="r", offset=_HEADER, shape=shape)


def _hold(file: BinaryIO) -> None:
    """Say that a file is in use, as long as it is open or mapped (:func:`diffgen.runs.cache.is_mapped`).

    A map keeps the file open that it was made from.
    """
    if sys.platform != "win32":
        import fcntl

        with contextlib.suppress(OSError):  # a file system without locks: nobody can say then what is in use
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


class ImageFile:
    """Writes images one after the other.

    Args:
        path: the file, which is made anew.
        shape: (C, H, W) of each.
    """

    def __init__(self, path: Path, shape: tuple[int, int, int]) -> None:
        self.path, self.shape, self.count = path, shape, 0
        self._file = path.open("wb")
        self._file.write(bytes(_HEADER))

    def add(self, images: UInt8Array) -> None:
        """Write images, uint8 (n, C, H, W).

        Raises:
            OSError: the disk is full.
        """
        assert images.shape[1:] == self.shape
        self._file.write(np.ascontiguousarray(images).data)
        self.count += len(images)

    def finish(self) -> None:
        """Say how many there are; nothing can be added afterwards."""
        self._file.seek(0)
        self._file.write(_header((self.count, *self.shape)))
        self._file.close()

    def close(self) -> None:
        """Leave it as it is."""
        self._file.close()


def _header(shape: tuple[int, ...]) -> bytes:
    """The beginning of a ``.npy`` file of format 1.0: what it holds, filled up with blanks."""
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {tuple(map(int, shape))!r}, }}".encode()
    room = _HEADER - len(_MAGIC) - 2
    return _MAGIC + room.to_bytes(2, "little") + text.ljust(room - 1) + b"\n"
