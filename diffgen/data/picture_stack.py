"""Many decoded pictures as one array, whether they come from a folder, a zip or a table."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from diffgen.data.checks import check_size_in_memory
from diffgen.data.resize import Resizer
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.types import UInt8Array


def stack(
    pictures: Iterable[tuple[str, UInt8Array]], count: int, source: str, *, resize: int | None, progress: Progress
) -> UInt8Array:
    """One array of all pictures.

    If all pictures are grey there is one channel, otherwise three; colours are never reduced to grey.

    Args:
        pictures: name, for messages, and uint8 (H, W) or (H, W, 3) of each.
        count: how many there will be.
        source: the data set that they are from, for messages.
        resize: side of the square that they are brought to, or None: all must have one size.
        progress: is told of every picture.

    Returns:
        uint8 (N, C, H, W) in the given order.

    Raises:
        UserError: pictures of different sizes, or too many of them for the memory.
    """
    to_size = Resizer(resize)
    gathered: list[UInt8Array] = []
    first = ""
    # One after the other: for pictures as small as these, threads were not faster.
    with progress.stage("Reading images", total=count) as task:
        for name, original in pictures:
            picture = to_size(original)
            if not gathered:
                first = name
                check_size_in_memory((count, 3, *picture.shape[:2]), source)
            elif picture.shape[:2] != gathered[0].shape[:2]:
                raise UserError(
                    f"The images of {source!r} differ in size, {first!r} has {_size(gathered[0])} and {name!r} has "
                    f"{_size(picture)} pixels; scale all of them to one size, or add --resize 32 (28, 32 or 64)."
                )
            gathered.append(picture)
            task.advance()
    to_size.report(len(gathered), progress)
    return _stacked(gathered, source, progress)


def _stacked(pictures: list[UInt8Array], source: str, progress: Progress) -> UInt8Array:
    coloured = sum(picture.ndim == 3 for picture in pictures)
    if 0 < coloured < len(pictures):
        progress.warn(
            f"{len(pictures) - coloured} of the {len(pictures)} images of {source!r} are grey; "
            "they are read as colour images like the others."
        )
    height, width = pictures[0].shape[:2] if pictures else (0, 0)
    stacked = np.empty((len(pictures), 3 if coloured else 1, height, width), dtype=np.uint8)
    for position, picture in enumerate(pictures):
        # grey levels spread over all channels
        stacked[position] = picture if picture.ndim == 2 else picture.transpose(2, 0, 1)
    return stacked


def _size(picture: UInt8Array) -> str:
    return f"{picture.shape[1]}x{picture.shape[0]}"
