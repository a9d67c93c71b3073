"""Brings images of any size to one square size, while they are read.

The largest square in the middle is kept and scaled, bicubic, smoothed where pixels are taken away. Nothing is
squashed: a picture whose proportions have changed is not what a model under test has been trained on, and a GAN would
learn to draw it that way. What lies outside the square is lost, which is said. Pillow scales 8-bit pictures in whole
numbers, so the result is the same on every machine.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from PIL import Image

from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.types import ImageSet, UInt8Array

_SMALLEST, _LARGEST = 4, 1024
_SIZES_SHOWN = 3


class Resizer:
    """Resizes pictures one by one and remembers what it was given.

    Args:
        side: of the square, in pixels; None leaves every picture as it is.

    Raises:
        UserError: ``side`` is no whole number from 4 to 1024.
    """

    def __init__(self, side: int | None) -> None:
        if side is not None and (not _is_whole(side) or not _SMALLEST <= side <= _LARGEST):
            raise UserError(
                f"Images cannot be resized to {side!r} pixels; give --resize the side of a square, such as 32."
            )
        self.side = side
        self._sizes: Counter[tuple[int, int]] = Counter()

    def __call__(self, picture: UInt8Array) -> UInt8Array:
        """The picture as a square.

        Args:
            picture: uint8 (H, W) or (H, W, 3).

        Returns:
            uint8 (side, side) or (side, side, 3); the same object if it has that size already.
        """
        height, width = picture.shape[:2]
        if self.side is None or (height, width) == (self.side, self.side):
            return picture
        self._sizes[width, height] += 1
        square = min(height, width)
        top, left = (height - square) // 2, (width - square) // 2
        # cut out first: with its argument "box" Pillow would let pixels from outside shine in at the edges
        cut = np.ascontiguousarray(picture[top : top + square, left : left + square])
        if square == self.side:
            return cut
        return np.asarray(Image.fromarray(cut).resize((self.side, self.side), Image.Resampling.BICUBIC))

    def report(self, count: int, progress: Progress) -> None:
        """Say what was done to how many of ``count`` images; nothing if none was changed."""
        changed = sum(self._sizes.values())
        if not changed:
            return
        most = ", ".join(f"{width}x{height}" for (width, height), _ in self._sizes.most_common(_SIZES_SHOWN))
        more = len(self._sizes) - _SIZES_SHOWN
        cut = sum(number for (width, height), number in self._sizes.items() if width != height)
        progress.say(
            f"Resized {changed:,} of {count:,} images to {self.side}x{self.side} (they had {most}"
            + (f" and {more} more sizes" if more > 0 else "")
            + ")"
            + (f"; {cut:,} that are no squares keep only their middle." if cut else ".")
        )


def resized(given: ImageSet, side: int, progress: Progress) -> ImageSet:
    """The image set with images of ``side`` x ``side``; the same object if they have that size already.

    Args:
        given: uint8 (N, C, H, W) and what belongs to it.
        side: in pixels.
        progress: is told how far it is, and what was done.

    Raises:
        UserError: ``side`` is no size.
    """
    resize = Resizer(side)
    if given.image_shape[1:] == (side, side):
        return given
    count, channels = given.images.shape[:2]
    images = np.empty((count, channels, side, side), dtype=np.uint8)
    with progress.stage("Resizing images", total=count) as task:
        for position, image in enumerate(given.images):
            if channels == 1:
                images[position, 0] = resize(image[0])
            else:
                images[position] = resize(image.transpose(1, 2, 0)).transpose(2, 0, 1)
            task.advance()
    resize.report(count, progress)
    return ImageSet(images=images, labels=given.labels, class_names=given.class_names, source=given.source)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
