"""Many pictures as one array, whether they come from a folder, a zip or a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from diffgen.data.checks import check_size_in_memory, checked
from diffgen.data.decoded import Facts, decoded_once, in_memory_if_small
from diffgen.data.piles import FilePile, MemoryPile
from diffgen.data.reading import Broken, Reading, said
from diffgen.data.resize import LARGEST, SMALLEST, Resizer, Size, size_text
from diffgen.errors import UserError
from diffgen.sampling import LARGE_BYTES
from diffgen.types import ImageSet, Int64Array, UInt8Array


@dataclass(frozen=True)
class Pictures:
    """Pictures that are not decoded yet.

    Attributes:
        count: how many there are.
        each: their names, for messages, and what decodes each, to uint8 (H, W) or (H, W, 3); begins anew whenever it is
            called. A UserError of what decodes is about that picture alone.
        facts: labels and class names of the pictures of some rows, int64 (n,), once all were looked at.
        made_from: JSON values that tell these pictures from others without decoding them.
    """

    count: int
    each: Callable[[], Iterator[tuple[str, Callable[[], UInt8Array]]]]
    facts: Callable[[Int64Array], Facts] = lambda rows: Facts()
    made_from: Callable[[], list[object]] = list


class _Picture(NamedTuple):
    row: int
    name: str
    pixels: UInt8Array


def read_pictures(pictures: Pictures, reading: Reading) -> ImageSet:
    """The image set of some pictures.

    If all pictures are grey there is one channel, otherwise three; colours are never reduced to grey. What takes more
    than ``LARGE_BYTES`` when it is decoded is decoded once into the cache and mapped from there.

    Raises:
        UserError: pictures of different sizes, too many of them for the disk, or broken ones.
    """
    resizer, source = reading.resizer, reading.source
    broken = Broken(reading, pictures.count)
    usable = _usable(pictures, broken)
    first = next(usable, None)
    expected = 0 if first is None else _expected(first.pixels, pictures.count, resizer)
    if first is None or expected <= LARGE_BYTES:
        pile = MemoryPile(source, pictures.count)
        kept = _piled(chain(() if first is None else (first,), usable), pile, broken, reading, pictures.count)
        left_out = broken.check()
        images = pile.finish(reading.progress)
        said(reading.progress, (resizer.report(len(images)), left_out))
        facts = pictures.facts(kept)
        return checked(images, facts.labels, facts.class_names, source)

    def fill(path: Path) -> tuple[tuple[int, ...], Facts]:
        broken = Broken(reading, pictures.count)
        with FilePile(path, source) as pile:
            kept = _piled(_usable(pictures, broken), pile, broken, reading, pictures.count)
            left_out = broken.check()
            shape = pile.finish(reading.progress)
        facts = pictures.facts(kept)
        sentences = said(reading.progress, (resizer.report(shape[0]), left_out))
        return shape, Facts(facts.labels, facts.class_names, sentences)

    made_from = [*pictures.made_from(), resizer.key, reading.skip_broken]
    images_set = decoded_once(source, made_from, fill, reading.progress, expected=expected)
    if resizer.size is None and resizer.usual is not None and images_set.image_shape[1:] == resizer.usual.size:
        resizer.size = resizer.usual.size  # as when they were decoded
    return in_memory_if_small(images_set, LARGE_BYTES)


def stack(pictures: Pictures, reading: Reading) -> UInt8Array:
    """One array of all pictures in memory, uint8 (N, C, H, W) in the given order.

    Raises:
        UserError: as :func:`read_pictures`, or too many of them for the memory.
    """
    broken, pile = Broken(reading, pictures.count), MemoryPile(reading.source, pictures.count)
    _piled(_usable(pictures, broken), pile, broken, reading, pictures.count)
    left_out = broken.check()
    images = pile.finish(reading.progress)
    said(reading.progress, (reading.resizer.report(len(images)), left_out))
    return images


def _usable(pictures: Pictures, broken: Broken) -> Iterator[_Picture]:
    for row, (name, decode) in enumerate(pictures.each()):
        try:
            yield _Picture(row, name, decode())
        except UserError as error:
            broken.note(name, error)


def _expected(first: UInt8Array, count: int, resizer: Resizer) -> int:
    """Bytes that the decoded pictures take at most, as far as the first of them tells.

    Whether they are brought to the usual size is decided now where the first one alone decides it: photographs that are
    shrunk are counted as what they become, and kept under the key of whoever names that size.
    """
    resizer.look(first.shape[:2], first.shape[:2])
    height, width = resizer.size or first.shape[:2]
    if resizer.size is None and resizer.usual is not None:
        height, width = max(height, resizer.usual.size[0]), max(width, resizer.usual.size[1])
    return count * height * width * (3 if first.ndim == 3 else 1)


def _piled(
    pictures: Iterator[_Picture], pile: MemoryPile | FilePile, broken: Broken, reading: Reading, count: int
) -> Int64Array:
    """Put pictures onto a pile in the size that is asked for; returns their rows."""
    resizer, rows = reading.resizer, list[int]()
    first: tuple[str, Size] | None = None
    # One after the other: for pictures as small as these, threads were not faster.
    with reading.progress.stage("Reading images", total=count) as task:
        for row, name, original in pictures:
            task.reach(row + 1)
            if broken.fatal:
                continue  # they are looked at only, so that all broken ones are named
            height, width = original.shape[:2]
            if first is None:
                first = name, (height, width)
            if resizer.look(first[1], (height, width)):
                pile.again(resizer)
            picture = resizer(original)
            if not rows and isinstance(pile, MemoryPile):
                check_size_in_memory((count, 3, *picture.shape[:2]), reading.source)
            elif rows and picture.shape[:2] != pile.size:
                raise UserError(
                    f"The images of {reading.source!r} differ in size, {first[0]!r} has {size_text(first[1])} and "
                    f"{name!r} has {size_text((height, width))} pixels; scale all of them to one size, or add --resize "
                    f"N ({SMALLEST} to {LARGEST})."
                )
            pile.add(picture)
            rows.append(row)
    return np.array(rows, dtype=np.int64)
