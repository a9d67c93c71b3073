"""Many pictures as one array, whether they come from a folder, a zip or a table."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from diffgen.data.checks import check_size_in_memory, checked
from diffgen.data.decoded import OTHER_NAME, Facts, ImageFile, decoded_once, in_memory_if_small, map_images
from diffgen.data.reading import Broken, PictureNotes, Reading, real
from diffgen.data.resize import LARGEST, SMALLEST, Resizer, Size, size_text
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.sampling import LARGE_BYTES
from diffgen.types import ImageSet, Int64Array, UInt8Array

# -- where decoded pictures of one size gather: in memory, or in a file ----------------------------------------------

Change = Callable[[UInt8Array], UInt8Array]


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
        """One more, uint8 (H, W) or (H, W, 3). OSError if the disk is full."""
        channels = 3 if picture.ndim == 3 else 1
        self._grey += channels == 1
        if self._file is None:
            self._file = ImageFile(self._path, (channels, *picture.shape[:2]))
        elif channels > self._file.shape[0]:
            self._rewrite(lambda before: before, channels)
        self._write(self._file, picture)

    def again(self, change: Change) -> None:
        """Change all that are there. OSError if the disk is full."""
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


@dataclass(frozen=True)
class Pictures:
    """Pictures that are not decoded yet.

    Attributes:
        each: their names, for messages, and what decodes each, to uint8 (H, W) or (H, W, 3), and notes what there is to
            note; begins anew whenever it is called. A UserError of what decodes is about that picture alone.
        facts: labels and class names of the pictures of some rows, int64 (n,), once all were looked at.
        made_from: JSON values that tell these pictures from others without decoding them.
    """

    count: int
    each: Callable[[PictureNotes], Iterator[tuple[str, Callable[[], UInt8Array]]]]
    facts: Callable[[Int64Array], Facts] = lambda rows: Facts()
    made_from: Callable[[], list[object]] = list


# Pillow lets other threads go on while it decodes and scales; of small pictures the threads themselves take longer.
_WORTH_A_THREAD = 128 * 128  # pixels
_THREADS = min(4, os.cpu_count() or 1)  # as many large pictures, and one more, may be in memory at once
THREAD = "diffgen-decodes"  # how the names of these threads begin


class _Picture(NamedTuple):
    """One that was decoded.

    Attributes:
        name: for messages.
        size: that it had, height and width.
        pixels: uint8 (H, W) or (H, W, 3), in the wanted size where that was known.
    """

    row: int
    name: str
    size: Size
    pixels: UInt8Array


_Call: TypeAlias = tuple[str, Callable[[], _Picture]]


def read_pictures(pictures: Pictures, reading: Reading) -> ImageSet:
    """The image set of some pictures.

    If all pictures are grey there is one channel, otherwise three; colours are never reduced to grey. What takes more
    than ``LARGE_BYTES`` when it is decoded is decoded once into the cache and mapped from there.

    Raises:
        UserError: pictures of different sizes, too many of them for the disk, or broken ones.
    """
    resizer, source = reading.resizer, reading.source
    expected = _expected(pictures, reading)
    if expected <= LARGE_BYTES:
        pile = MemoryPile(source, pictures.count)
        facts = _pile_up(pictures, pile, reading)
        images = pile.finish(reading.progress)
        facts.tell(reading.progress)
        return checked(images, facts.labels, facts.class_names, source)

    def fill(path: Path) -> tuple[tuple[int, ...], Facts]:
        with FilePile(path, source) as pile:
            facts = _pile_up(pictures, pile, reading)
            return pile.finish(reading.progress), facts

    made_from = [*pictures.made_from(), resizer.key, reading.skip_broken, reading.exif]
    images_set = decoded_once(source, made_from, fill, reading.progress, expected=expected)
    if resizer.size is None and resizer.usual is not None and images_set.image_shape[1:] == resizer.usual.size:
        resizer.size = resizer.usual.size  # as when they were decoded
    return in_memory_if_small(images_set, LARGE_BYTES)


def stack(pictures: Pictures, reading: Reading) -> UInt8Array:
    """One array of all pictures in memory, uint8 (N, C, H, W) in the given order.

    Raises:
        UserError: as :func:`read_pictures`, or too many of them for the memory.
    """
    pile = MemoryPile(reading.source, pictures.count)
    facts = _pile_up(pictures, pile, reading)
    images = pile.finish(reading.progress)
    facts.tell(reading.progress)
    return images


def _pile_up(pictures: Pictures, pile: MemoryPile | FilePile, reading: Reading) -> Facts:
    """Put all pictures onto a pile, once more if those of 16 bits turn out to hold fewer; what is known of them.

    Raises:
        UserError: see :func:`read_pictures`.
    """
    upright = reading.exif == "apply"
    notes = PictureNotes(upright=upright)
    while True:
        broken = Broken(reading, pictures.count)
        kept = _piled(_usable(pictures, broken, reading.resizer, notes), pile, broken, reading, pictures.count)
        left_out = broken.check()
        if notes.bits == notes.bits_held:
            break
        notes = PictureNotes(notes.bits_held, upright=upright)
        pile.clear()
        reading.resizer.begin()
    facts, count = pictures.facts(kept), len(kept)
    depth, transparency = notes.about_depth(count, reading.source), notes.about_transparency(count, reading.source)
    turned = notes.about_orientation(count, reading.source)
    said = real(reading.resizer.report(count), left_out, depth, turned if upright else "")
    return Facts(facts.labels, facts.class_names, said, real(transparency, "" if upright else turned))


def _usable(pictures: Pictures, broken: Broken, resizer: Resizer, notes: PictureNotes) -> Iterator[_Picture]:
    """Those that can be decoded, in order."""

    def decoded(row: int, name: str, decode: Callable[[], UInt8Array]) -> _Picture:
        original = decode()
        return _Picture(row, name, (original.shape[0], original.shape[1]), resizer.scaled(original))

    calls = ((name, partial(decoded, row, name, decode)) for row, (name, decode) in enumerate(pictures.each(notes)))
    largest = [0]  # pixels
    for name, result in _begun(calls, lambda: largest[0] >= _WORTH_A_THREAD):
        try:
            picture = result()
        except UserError as error:
            broken.note(name, error)
            continue
        largest[0] = max(largest[0], picture.size[0] * picture.size[1])
        yield picture


def _begun(calls: Iterator[_Call], large: Callable[[], bool]) -> Iterator[_Call]:
    """The same calls in order; as soon as pictures turn out to be large, they are begun ahead, in threads."""
    for each in calls:
        yield each
        if large():
            break
    waiting: deque[tuple[str, Future[_Picture]]] = deque()
    with ThreadPoolExecutor(_THREADS, THREAD) as pool:
        try:
            for name, call in calls:
                waiting.append((name, pool.submit(call)))
                if len(waiting) > _THREADS:
                    name, future = waiting.popleft()
                    yield name, future.result
            while waiting:
                name, future = waiting.popleft()
                yield name, future.result
        finally:
            for _, future in waiting:
                future.cancel()


def _expected(pictures: Pictures, reading: Reading) -> int:
    """Bytes that the decoded pictures take at most, as far as the first usable one tells; 0 where none is usable.

    Whether they are brought to the usual size is decided now where the first one alone decides it: photographs that are
    shrunk are counted as what they become, and kept under the key of whoever names that size.
    """
    resizer = reading.resizer
    notes = PictureNotes(upright=reading.exif == "apply")
    first = next(_usable(pictures, Broken(reading, pictures.count), resizer, notes), None)
    if first is None:
        return 0
    resizer.look(first.size, first.size)
    height, width = resizer.size or first.size
    if resizer.size is None and resizer.usual is not None:
        height, width = max(height, resizer.usual.size[0]), max(width, resizer.usual.size[1])
    return pictures.count * height * width * (3 if first.pixels.ndim == 3 else 1)


def _piled(
    pictures: Iterator[_Picture], pile: MemoryPile | FilePile, broken: Broken, reading: Reading, count: int
) -> Int64Array:
    """Put pictures onto a pile in the size that is asked for; returns their rows."""
    resizer, rows = reading.resizer, list[int]()
    first: tuple[str, Size] | None = None
    with reading.progress.stage("Reading images", total=count) as task:
        for row, name, size, pixels in pictures:
            task.reach(row + 1)
            if broken.fatal:
                continue  # they are looked at only, so that all broken ones are named
            if first is None:
                first = name, size
            if resizer.look(first[1], size):
                pile.again(resizer)
            picture = resizer(pixels, size)
            if not rows and isinstance(pile, MemoryPile):
                check_size_in_memory((count, 3, *picture.shape[:2]), reading.source)
            elif rows and picture.shape[:2] != pile.size:
                raise UserError(
                    f"The images of {reading.source!r} differ in size, {first[0]!r} has {size_text(first[1])} and "
                    f"{name!r} has {size_text(size)} pixels; scale all of them to one size, or add --resize "
                    f"N ({SMALLEST} to {LARGEST})."
                )
            pile.add(picture)
            rows.append(row)
    return np.array(rows, dtype=np.int64)
