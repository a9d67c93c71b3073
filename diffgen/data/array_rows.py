"""Arrays of images that are too large for the memory: read from their file batch by batch, into the cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from diffgen.data.decoded import Facts, decoded_once, in_memory_if_small
from diffgen.data.mapped import ImageFile
from diffgen.data.pixels import GreyLevels, channels_first
from diffgen.data.reading import Reading, real
from diffgen.data.resize import resized_image
from diffgen.errors import UserError
from diffgen.sampling import LARGE_BYTES
from diffgen.types import ImageSet

_BATCH = 16 * 2**20  # bytes that are read at once
_PIECE = 2**20
_MOST = 2**26  # values of one image; a picture file may have as many pixels


@dataclass(frozen=True)
class ArrayRows:
    """An array in a file, row by row.

    Attributes:
        shape: (N, ...), with one row for each image.
        dtype: of its values.
        opened: gives a stream that stands behind the header; begins anew whenever it is called, and raises what the
            stream raises as a UserError.
        name: of the array, for whoever watches.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    opened: Callable[[], AbstractContextManager[IO[bytes]]]
    name: str

    def is_large(self, reading: Reading) -> bool:
        """Whether the images take more than may be kept in memory, as they are or in the size that is asked for."""
        if 0 in self.shape or len(self.shape) < 3:
            return False
        channels, *own = _image_shape(self.shape[1:])
        size = reading.resizer.size or own
        return self.shape[0] * channels * max(math.prod(own), math.prod(size)) > LARGE_BYTES

    def batches(self) -> Iterator[np.ndarray[Any, Any]]:
        """Consecutive rows.

        Raises:
            UserError: the file ends too early or too late.
        """
        of_a_row = math.prod(self.shape[1:]) * self.dtype.itemsize
        step = max(1, _BATCH // max(1, of_a_row))
        with self.opened() as stream:
            for start in range(0, self.shape[0], step):
                count = min(step, self.shape[0] - start)
                yield np.frombuffer(_exactly(stream, count * of_a_row), dtype=self.dtype).reshape(
                    count, *self.shape[1:]
                )
            if stream.read(1):
                raise ValueError("it is longer than it says")


def read_rows(rows: ArrayRows, facts: Facts, made_from: list[object], reading: Reading) -> ImageSet:
    """The image set of an array, decoded once into the cache.

    Args:
        rows: the array.
        facts: labels and class names.
        made_from: JSON values that tell this array from others without reading it.
        reading: says what is asked for.

    Raises:
        UserError: see :func:`diffgen.data.decoded.decoded_once`; or the values mean no grey levels.
    """
    shape = _image_shape(rows.shape[1:])
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise UserError(
            f"The images of {reading.source!r} have the shape {rows.shape}, not (N, C, H, W) with 1 or 3 channels; "
            "save them so."
        )
    if math.prod(shape) > _MOST:
        raise UserError(
            f"The images of {reading.source!r} have the shape {rows.shape}, with more than {_MOST:,} values each; save "
            "smaller ones."
        )
    channels, size = shape[0], reading.resizer.size or shape[1:]

    def fill(path: Path) -> tuple[tuple[int, ...], Facts]:
        progress, resizer = reading.progress, reading.resizer
        levels = GreyLevels(rows.dtype, reading.source, progress)
        if rows.dtype != np.uint8 and rows.dtype.kind in "iuf":
            with progress.stage(f"Looking at {rows.name}", total=rows.shape[0]) as task:
                for batch in rows.batches():
                    levels.look(batch)
                    task.advance(len(batch))
        levels.decide()
        file = ImageFile(path, (channels, *size))
        try:
            with progress.stage(f"Reading {rows.name}", total=rows.shape[0]) as task:
                for batch in rows.batches():
                    images = channels_first(levels(batch))
                    if size != shape[1:]:
                        images = np.stack([resized_image(image, resizer) for image in images])
                    file.add(images)
                    task.advance(len(images))
            levels.finish()
            file.finish()
        finally:
            file.close()
        return (file.count, *file.shape), Facts(facts.labels, facts.class_names, real(resizer.report(file.count)))

    expected = rows.shape[0] * channels * math.prod(size)
    found = decoded_once(
        reading.source, [*made_from, reading.resizer.key[:2]], fill, reading.progress, expected=expected
    )
    return in_memory_if_small(found, LARGE_BYTES)


def _image_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """(C, H, W) of (H, W), (C, H, W) or (H, W, C), as :func:`diffgen.data.pixels.channels_first` reads it."""
    if len(shape) == 2:
        return 1, *shape
    if len(shape) == 3 and shape[0] not in (1, 3) and shape[2] in (1, 3):
        return shape[2], shape[0], shape[1]
    return shape


def _exactly(stream: IO[bytes], size: int) -> bytes:
    parts, left = [], size
    while left:
        piece = stream.read(min(left, _PIECE))  # a header that lies allocates nothing
        if not piece:
            raise EOFError("it is cut off")
        parts.append(piece)
        left -= len(piece)
    return b"".join(parts)
