"""Where decoded pictures of one size gather: in memory, or in a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from diffgen.data.mapped import ImageFile, map_images
from diffgen.data.resize import Size
from diffgen.events import Progress
from diffgen.types import UInt8Array

Change = Callable[[UInt8Array], UInt8Array]
OTHER_NAME = ".again"  # at the end of a file's name, while it is written once more


class MemoryPile:
    """Pictures in memory.

    Args:
        source: the data set that they are from, for messages.
        count: how many there will be at most.
    """

    def __init__(self, source: str, count: int) -> None:
        self._source, self._pictures = source, list[UInt8Array]()

    @property
    def size(self) -> Size:
        """Height and width of all pictures; there is one."""
        height, width = self._pictures[0].shape[:2]
        return height, width

    def add(self, picture: UInt8Array) -> None:
        """One more, uint8 (H, W) or (H, W, 3)."""
        self._pictures.append(picture)

    def again(self, change: Change) -> None:
        """Change all that are there."""
        self._pictures = [change(picture) for picture in self._pictures]

    def clear(self) -> None:
        """Forget all that are there."""
        self._pictures.clear()

    def finish(self, progress: Progress) -> UInt8Array:
        """uint8 (N, C, H, W): three channels as soon as one picture is coloured."""
        pictures = self._pictures
        coloured = sum(picture.ndim == 3 for picture in pictures)
        _warn(len(pictures) - coloured, len(pictures), self._source, progress)
        height, width = pictures[0].shape[:2] if pictures else (0, 0)
        stacked = np.empty((len(pictures), 3 if coloured else 1, height, width), dtype=np.uint8)
        for position, picture in enumerate(pictures):
            # grey levels spread over all channels
            stacked[position] = picture if picture.ndim == 2 else picture.transpose(2, 0, 1)
        return stacked


class FilePile:
    """Pictures in a file; a context manager.

    Args:
        path: where the file shall lie in the end.
        source: the data set that they are from, for messages.
    """

    def __init__(self, path: Path, source: str) -> None:
        self._path, self._source = path, source
        self._other = path.with_name(f"{path.name}{OTHER_NAME}")
        self._grey = 0
        self._file: ImageFile | None = None

    def __enter__(self) -> FilePile:
        return self

    def __exit__(self, *about: object) -> None:
        if self._file is not None:
            try:
                self._file.close()  # writes what is buffered, which fails once more where the disk is full
            finally:
                self._other.unlink(missing_ok=True)

    @property
    def size(self) -> Size:
        """Height and width of all pictures; there is one."""
        assert self._file is not None
        return self._file.shape[1], self._file.shape[2]

    def add(self, picture: UInt8Array) -> None:
        """One more, uint8 (H, W) or (H, W, 3).

        Raises:
            OSError: the disk is full.
        """
        channels = 3 if picture.ndim == 3 else 1
        self._grey += channels == 1
        if self._file is None:
            self._file = ImageFile(self._path, (channels, *picture.shape[:2]))
        elif channels > self._file.shape[0]:
            self._rewrite(lambda before: before, channels)
        self._write(self._file, picture)

    def again(self, change: Change) -> None:
        """Change all that are there.

        Raises:
            OSError: the disk is full.
        """
        if self._file is not None:
            self._rewrite(change, self._file.shape[0])

    def clear(self) -> None:
        """Forget all that are there."""
        if self._file is not None:
            self._file.close()
        self._file, self._grey = None, 0

    def finish(self, progress: Progress) -> tuple[int, ...]:
        """The shape (N, C, H, W) of what lies in the file now."""
        if self._file is None:
            self._file = ImageFile(self._path, (1, 1, 1))
        file = self._file
        file.finish()
        if file.path != self._path:
            os.replace(file.path, self._path)
            file.path = self._path
        if file.shape[0] == 3:
            _warn(self._grey, file.count, self._source, progress)
        return file.count, *file.shape

    def _rewrite(self, change: Change, channels: int) -> None:
        old = self._file
        assert old is not None
        old.finish()
        images = map_images(old.path, (old.count, *old.shape))
        # turn and turn about between two names
        path = self._other if old.path == self._path else self._path
        pictures = (image[0] if len(image) == 1 else image.transpose(1, 2, 0) for image in images)
        first = change(next(pictures))
        self._file = ImageFile(path, (channels, *first.shape[:2]))
        self._write(self._file, first)
        for picture in pictures:
            self._write(self._file, change(picture))
        old.path.unlink()

    @staticmethod
    def _write(file: ImageFile, picture: UInt8Array) -> None:
        planes = picture[None] if picture.ndim == 2 else picture.transpose(2, 0, 1)
        file.add(np.broadcast_to(planes, file.shape)[None])


def _warn(grey: int, count: int, source: str, progress: Progress) -> None:
    if 0 < grey < count:
        progress.warn(
            f"{grey} of the {count} images of {source!r} are grey; they are read as colour images like the others."
        )
