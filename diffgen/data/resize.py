"""Brings pictures of any size to one size, while they are read.

Three rules. "crop" keeps the largest part in the middle that has the proportions of the wanted size, which brings the
shorter side to it, and loses what lies outside; "pad" keeps all and fills the rest with black; "stretch" keeps all and
changes the proportions. What remains is scaled bicubic, smoothed where pixels are taken away. Pillow scales 8-bit
pictures in whole numbers, so the result is the same on every machine.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from PIL import Image

from diffgen.data.boxes import clipped
from diffgen.data.checks import check_size_in_memory
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.types import NO_CLASS, Float32Array, ImageSet, UInt8Array

Size: TypeAlias = tuple[int, int]  # height and width in pixels
_Part: TypeAlias = tuple[int, int, int, int]  # first row and column, height and width
Fit: TypeAlias = Literal["crop", "pad", "stretch"]
SMALLEST, LARGEST = 16, 1024
_SIZES_SHOWN = 3


@dataclass(frozen=True)
class Usual:
    """The size that pictures are brought to where nobody names one and it is needed.

    Attributes:
        size: what they are brought to when they differ in size.
        shrinks: also pictures of one size, where that is larger.
        whole: such pictures keep their proportions, and become as large as fits into the size: nothing is cut off that
            a detector should find.
    """

    size: Size
    shrinks: bool
    whole: bool = False

    def of(self, size: Size) -> Size:
        """What pictures of one larger size, height and width, are brought to."""
        return self.size if not self.whole else _place(size, self.size)[2:]


class Resizer:
    """Resizes pictures one by one and remembers what it was given.

    Args:
        size: that every picture is brought to: height and width, or the side of a square; None leaves every picture as
            it is, but for what ``usual`` says.
        fit: the rule; see above.
        usual: where no size is named.

    Raises:
        UserError: a side is no whole number from 16 to 1024.

    Attributes:
        size: that pictures are brought to by now, or None.
    """

    def __init__(self, size: Any = None, fit: Fit = "crop", usual: Usual | None = None) -> None:
        self.size: Size | None = None if size is None else checked_size(size)
        self.fit = fit
        self.usual = usual
        self._sizes: Counter[Size] = Counter()

    @property
    def key(self) -> list[Any]:
        """What decides about the pictures that come out; JSON values."""
        if self.size is not None:  # once it is decided, what would be usual decides nothing
            return [list(self.size), self.fit, None]
        return [
            None,
            self.fit,
            None if self.usual is None else [*self.usual.size, self.usual.shrinks, *[True] * self.usual.whole],
        ]

    def begin(self) -> None:
        """Forget what sizes the pictures had that were handed over, which are handed over again."""
        self._sizes.clear()

    def look(self, first: Size, size: Size) -> bool:
        """Decide whether pictures are brought to the usual size, once one of them is known.

        Args:
            first: of the first picture of the set.

        Returns:
            Whether that was decided now, so that pictures that were passed before have to be handed over again.
        """
        if self.size is not None or self.usual is None:
            return False
        larger = any(side > usual for side, usual in zip(size, self.usual.size, strict=True))
        if size == first and not (larger and self.usual.shrinks):
            return False
        self.size = self.usual.of(size) if size == first else self.usual.size
        return True

    def __call__(self, picture: UInt8Array, size: Size | None = None) -> UInt8Array:
        """The picture in the wanted size; remembers what it had.

        Args:
            picture: uint8 (H, W) or (H, W, 3).
            size: that it had, where :meth:`scaled` may have been asked about it before; None: the one it has.

        Returns:
            uint8 with as many axes; the same object if it has that size already, or there is none.
        """
        height, width = picture.shape[:2] if size is None else size
        if self.size is None or (height, width) == self.size:
            return picture
        self._sizes[height, width] += 1
        return self.scaled(picture)

    def scaled(self, picture: UInt8Array) -> UInt8Array:
        """The picture in the wanted size; see :meth:`__call__`. Nothing is remembered, and any thread may ask."""
        if self.size is None or picture.shape[:2] == self.size:
            return picture
        if self.fit == "crop":
            return _scaled(_middle(picture, self.size), self.size)
        if self.fit == "stretch":
            return _scaled(picture, self.size)
        return _padded(picture, self.size)

    def boxes(self, boxes: Float32Array, size: Size) -> Float32Array:
        """Boxes of a picture in the pixels of what :meth:`__call__` makes of it.

        Args:
            boxes: float32 (n, 5), x1, y1, x2, y2, class.
            size: that the picture had, height and width.

        Returns:
            float32 (m, 5): what lies outside is cut off, and a box left out of which less than half is left.
        """
        if self.size is None or size == self.size or len(boxes) == 0:
            return boxes
        (top, left, height, width), into = self._from_and_into(size, self.size)
        corner, scale = np.array([left, top] * 2), np.array([into[3] / width, into[2] / height] * 2)
        moved = boxes.copy()
        moved[:, :4] = (boxes[:, :4] - corner) * scale + np.array([into[1], into[0]] * 2)
        return clipped(moved, self.size)

    def mask(self, mask: UInt8Array) -> UInt8Array:
        """The classes of a picture's pixels in what :meth:`__call__` makes of it: of each pixel that of the nearest.

        Args:
            mask: uint8 (H, W).

        Returns:
            uint8, ``NO_CLASS`` beside a padded picture.
        """
        if self.size is None or mask.shape == self.size:
            return mask
        (top, left, height, width), (first, start, rows, columns) = self._from_and_into(mask.shape, self.size)
        down, across = (
            corner + ((np.arange(count) + 0.5) * side / count).astype(np.int64)
            for corner, side, count in ((top, height, rows), (left, width, columns))
        )
        whole = np.full(self.size, NO_CLASS, dtype=np.uint8)
        whole[first : first + rows, start : start + columns] = mask[down[:, None], across]
        return whole

    def _from_and_into(self, own: tuple[int, ...], size: Size) -> tuple[_Part, _Part]:
        """Which part of a picture is kept, and which part of the wanted size it fills."""
        height, width = own
        return (
            _kept((height, width), size) if self.fit == "crop" else (0, 0, height, width),
            _place((height, width), size) if self.fit == "pad" else (0, 0, *size),
        )

    def report(self, count: int) -> str:
        """What was done to how many of ``count`` images, in a sentence; empty if none was changed."""
        changed = sum(self._sizes.values())
        if not changed or self.size is None:
            return ""
        most = ", ".join(f"{width}x{height}" for (height, width), _ in self._sizes.most_common(_SIZES_SHOWN))
        more = len(self._sizes) - _SIZES_SHOWN
        return (
            f"Resized {changed:,} of {count:,} images to {size_text(self.size)} (they had {most}"
            + (f" and {more} more sizes" if more > 0 else "")
            + ")"
            + self._lost()
        )

    def _lost(self) -> str:
        """What happened to pictures of other proportions; the end of a sentence."""
        assert self.size is not None
        height, width = self.size
        other = sum(number for (h, w), number in self._sizes.items() if h * width != w * height)
        if not other:
            return "."
        if self.fit == "pad":
            return f"; {other:,} of other proportions have black beside them."
        if self.fit == "stretch":
            return f"; {other:,} of other proportions are stretched."
        kind = "that are no squares" if height == width else "of other proportions"
        return f"; {other:,} {kind} keep only their middle."


def resized(given: ImageSet, resizer: Resizer, progress: Progress) -> ImageSet:
    """The image set with every image in the size that is asked for; the same object if they have that size already.

    Args:
        given: uint8 (N, C, H, W) and what belongs to it.
        progress: is told how far it is, and what was done.

    Raises:
        UserError: they are too many for the memory in that size.
    """
    size = resizer.size
    if size is None or given.image_shape[1:] == size:
        return given
    count, channels = given.images.shape[:2]
    check_size_in_memory((count, channels, *size), given.source)
    images = np.empty((count, channels, *size), dtype=np.uint8)
    with progress.stage("Resizing images", total=count) as task:
        for position, image in enumerate(given.images):
            images[position] = resized_image(image, resizer)
            task.advance()
    progress.say(resizer.report(count))
    before = given.image_shape[1:]
    boxes = given.boxes and tuple(each if each is None else resizer.boxes(each, before) for each in given.boxes)
    masks = given.masks and tuple(each if each is None else resizer.mask(each) for each in given.masks)
    return replace(given, images=images, boxes=boxes, masks=masks)


def resized_image(image: UInt8Array, resizer: Resizer) -> UInt8Array:
    """One image, uint8 (C, H, W), in the wanted size."""
    if len(image) == 1:
        return resizer(image[0])[None]
    return resizer(image.transpose(1, 2, 0)).transpose(2, 0, 1)


def checked_size(size: Any) -> Size:
    """Height and width from a side or both. UserError if they are none from 16 to 1024."""
    sides = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(sides) != 2 or not all(_is_whole(side) and SMALLEST <= side <= LARGEST for side in sides):
        raise UserError(
            f"Images cannot be resized to {size!r} pixels; give --resize a side from {SMALLEST} to {LARGEST}, or "
            "height and width as 192x256."
        )
    return int(sides[0]), int(sides[1])


def size_text(size: tuple[int, ...]) -> str:
    """Width and height as people write them: ``640x480``."""
    return f"{size[1]}x{size[0]}"


def _middle(picture: UInt8Array, size: Size) -> UInt8Array:
    """The largest part in the middle with the proportions of a size, to a whole pixel."""
    top, left, height, width = _kept((picture.shape[0], picture.shape[1]), size)
    # cut out first: with its argument "box" Pillow would let pixels from outside shine in at the edges
    return np.ascontiguousarray(picture[top : top + height, left : left + width])


def _kept(own: Size, size: Size) -> tuple[int, int, int, int]:
    """First row and column, height and width of what :func:`_middle` keeps."""
    height, width = own
    # in whole numbers, so that the square in the middle has the very length of the shorter side
    kept_height = min(height, max(1, (2 * width * size[0] + size[1]) // (2 * size[1])))
    kept_width = min(width, max(1, (2 * height * size[1] + size[0]) // (2 * size[0])))
    return (height - kept_height) // 2, (width - kept_width) // 2, kept_height, kept_width


def _padded(picture: UInt8Array, size: Size) -> UInt8Array:
    top, left, height, width = _place((picture.shape[0], picture.shape[1]), size)
    whole = np.zeros((*size, *picture.shape[2:]), dtype=np.uint8)
    whole[top : top + height, left : left + width] = _scaled(picture, (height, width))
    return whole


def _place(own: Size, size: Size) -> tuple[int, int, int, int]:
    """First row and column, height and width of a picture in the one that :func:`_padded` makes."""
    height, width = own
    share = min(size[0] / height, size[1] / width)
    inner = (min(size[0], max(1, round(share * height))), min(size[1], max(1, round(share * width))))
    return (size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2, *inner


def _scaled(picture: UInt8Array, size: Size) -> UInt8Array:
    if picture.shape[:2] == size:
        return picture
    scaled = Image.fromarray(np.ascontiguousarray(picture)).resize((size[1], size[0]), Image.Resampling.BICUBIC)
    return np.asarray(scaled)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
