"""Arrays of pixels: the order of their axes and the range of their values, and those that are too large at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from diffgen.data.decoded import Facts, ImageFile, decoded_once, in_memory_if_small
from diffgen.data.reading import Reading, real
from diffgen.data.resize import resized_image
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.sampling import LARGE_BYTES
from diffgen.types import ImageSet, UInt8Array

_WHITE = 255
# Images converted at once: double precision takes eight times the room of the result.
_ROWS = 4096
_LOOKED_AT = 64  # images at once; of usual ones no more are read
# No picture that was taken or drawn to be looked at keeps this close to black, or to white.
_CLOSE = 32
_ALIKE = 4  # grey levels between the darkest and the lightest value, at most, of images of one colour


def channels_first(pixels: UInt8Array) -> UInt8Array:
    """(N, H, W) and (N, H, W, C) as (N, C, H, W), C 1 or 3; anything else is given back as it is.

    Of (N, 3, W, 3) the second axis is taken for the channels.
    """
    if pixels.ndim == 3:
        return pixels[:, None]
    if pixels.ndim == 4 and pixels.shape[1] not in (1, 3) and pixels.shape[3] in (1, 3):
        return pixels.transpose(0, 3, 1, 2)
    return pixels


def to_grey_levels(pixels: np.ndarray[Any, Any], source: str, progress: Progress) -> UInt8Array:
    """Numbers of any type as grey levels.

    Truth values are black and white. Other whole numbers must lie in 0..255. Fractions must lie in 0..1, which is
    black to white, or in 0..255; they are rounded to the nearest level. Where that changes more than the precision of
    the file's own type explains, a warning says so, because the models are then asked about slightly other images
    than the file holds.

    Args:
        pixels: of any shape.
        source: the data set that they are from, for messages.

    Returns:
        uint8 of the same shape; the same object if it was uint8, or if it is no array of images at all.

    Raises:
        UserError: values that are no numbers, not finite, or in no such range.
    """
    if pixels.size == 0 or pixels.ndim == 0 or pixels.dtype == np.uint8:
        return pixels
    levels = GreyLevels(pixels.dtype, source, progress)
    levels.look(pixels)
    levels.decide()
    found = np.empty(pixels.shape, dtype=np.uint8)
    for start in range(0, len(pixels), _ROWS):
        found[start : start + _ROWS] = levels(pixels[start : start + _ROWS])
    levels.finish()
    return found


def warn_of_one_shade(images: UInt8Array, source: str, progress: Progress) -> None:
    """Warn of images, uint8 (N, C, H, W), all of whose values are nearly black, nearly white or nearly the same.

    That comes of fractions in 0..1 that were stored as whole numbers, for example. Reads on only while it is so.
    """
    lowest, highest = _WHITE, 0
    for start in range(0, len(images), _LOOKED_AT):
        some = images[start : start + _LOOKED_AT]
        lowest, highest = min(lowest, int(some.min())), max(highest, int(some.max()))
        if highest >= _CLOSE and lowest <= _WHITE - _CLOSE and highest - lowest > _ALIKE:
            return
    if highest < _CLOSE:
        what = f"nearly black (no value is above {highest} of {_WHITE})"
    elif lowest > _WHITE - _CLOSE:
        what = f"nearly white (no value is below {lowest} of {_WHITE})"
    else:
        what = f"of one shade (all values are from {lowest} to {highest} of {_WHITE})"
    progress.warn(
        f"The images of {source!r} are {what}, and a pre-processing that suits them may suit no other images; if their "
        f"values shall spread over 0..{_WHITE}, scale them and save them again."
    )


class GreyLevels:
    """Numbers of one array as grey levels, batch by batch: :meth:`look` at all, :meth:`decide`, and convert.

    Args:
        dtype: of the numbers.
        source: the data set that they are from, for messages.
    """

    def __init__(self, dtype: np.dtype[Any], source: str, progress: Progress) -> None:
        self._dtype, self._source, self._progress = dtype, source, progress
        self._lowest, self._highest = np.inf, -np.inf
        self._factor, self._furthest = 1, 0.0

    def look(self, pixels: np.ndarray[Any, Any]) -> None:
        """Take note of the range of some."""
        if pixels.size and self._dtype.kind in "iuf":
            # NaN survives min and max, and np.fmin would lose it
            self._lowest = np.minimum(self._lowest, pixels.min())
            self._highest = np.maximum(self._highest, pixels.max())

    def decide(self) -> None:
        """Find out what the range of all of them means. UserError as :func:`to_grey_levels`."""
        source, lowest, highest = self._source, self._lowest, self._highest
        if self._dtype == np.uint8 or self._dtype.kind == "b":
            return
        if self._dtype.kind not in "iuf":
            raise UserError(
                f"The images of {source!r} are of type {self._dtype}, not numbers; save them as uint8 (0..255)."
            )
        if not (np.isfinite(lowest) and np.isfinite(highest)):
            raise UserError(
                f"The images of {source!r} hold values that are not finite numbers; remove them and save the file "
                "again."
            )
        if lowest < 0 or highest > _WHITE:
            raise UserError(
                f"The images of {source!r} have values from {lowest:g} to {highest:g}; save them as uint8 (0..255) or "
                "as fractions in 0..1, before any normalisation by mean and standard deviation."
            )
        self._factor = _WHITE if self._dtype.kind == "f" and highest <= 1 else 1

    def __call__(self, pixels: np.ndarray[Any, Any]) -> UInt8Array:
        """uint8 of the same shape; the same object if it was uint8."""
        if self._dtype == np.uint8:
            return pixels
        if self._dtype.kind == "b":
            return pixels.astype(np.uint8) * np.uint8(_WHITE)
        if self._dtype.kind in "iu":
            return pixels.astype(np.uint8)
        exact = pixels.astype(np.float64) * self._factor
        nearest = np.rint(exact)
        if exact.size:
            self._furthest = max(self._furthest, float(np.abs(exact - nearest).max()))
        return nearest.astype(np.uint8)

    def finish(self) -> None:
        """Warn of rounding, once all are converted."""
        if self._dtype.kind == "f" and self._furthest > _WHITE * np.finfo(self._dtype).eps:
            self._progress.warn(
                f"The images of {self._source!r} are {self._dtype} and not all of their values are whole grey levels; "
                f"they are rounded to 0..255, by up to {self._furthest:.2f}, and the models are asked about the "
                "rounded images."
            )


# -- arrays that are too large for the memory: read from their file batch by batch, into the cache -------------------

_BATCH = 16 * 2**20  # bytes that are read at once
_PIECE = 2**20
_MOST = 2**26  # values of one image; a picture file may have as many pixels


@dataclass(frozen=True)
class ArrayRows:
    """An array in a file, row by row.

    Attributes:
        shape: (N, ...), with one row for each image.
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
        """Consecutive rows. UserError if the file ends too early or too late."""
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
        facts: labels and class names.
        made_from: JSON values that tell this array from others without reading it.

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


def read_values(stream: IO[bytes], size: int, name: str, progress: Progress) -> bytearray:
    """At most one byte more than ``size``; in pieces, so that a header that lies about the size allocates nothing."""
    values = bytearray()
    with progress.stage(f"Reading {name}", total=size) as task:
        while len(values) <= size and (piece := stream.read(min(_PIECE, size + 1 - len(values)))):
            values += piece
            task.advance(len(piece))
    return values


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
