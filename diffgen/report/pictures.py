"""Small pictures as PNG data URIs, and the limit on how many bytes of them one page holds."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

from diffgen.types import UInt8Array

#: Longest edge that goes into the page as it is; larger pictures are shown reduced (the run folder has them in full).
LARGEST_EDGE = 96


def png_bytes(image: UInt8Array) -> bytes:
    """``uint8 (C, H, W)`` with one or three channels as a PNG file.

    Raises:
        ValueError: the array is not such an image.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[0] not in (1, 3):
        raise ValueError(f"an image for the report is uint8 (1 or 3, H, W), not {image.dtype} {image.shape}")
    pixels = image[0] if image.shape[0] == 1 else np.moveaxis(image, 0, 2)
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    if max(picture.size) > LARGEST_EDGE:
        picture.thumbnail((LARGEST_EDGE, LARGEST_EDGE), Image.Resampling.BOX)
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def data_uri(image: UInt8Array) -> str:
    """``uint8 (C, H, W)`` as ``data:image/png;base64,...``; the pixels up to ``LARGEST_EDGE`` are exactly the given."""
    return "data:image/png;base64," + base64.b64encode(png_bytes(image)).decode("ascii")


def display_size(image: UInt8Array, target: int) -> tuple[int, int]:
    """Width and height in CSS pixels close to ``target``.

    Small pictures get a whole multiple of their size, so that every pixel of theirs is equally large on the screen.
    """
    _, height, width = image.shape
    longest = max(height, width)
    scale = max(1, round(target / longest)) if longest <= target else target / longest
    return max(1, round(width * scale)), max(1, round(height * scale))


class PictureBudget:
    """Hands out data URIs until ``limit`` bytes are used up; what comes later gets None."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def take(self, image: UInt8Array) -> str | None:
        """The data URI of ``image``, or None when it no longer fits."""
        uri = data_uri(image)
        if len(uri) > self._left:
            # Everything after the first picture that does not fit is left out too: a page that skips large pictures
            # and shows small ones would not be a fair sample.
            self._left = 0
            return None
        self._left -= len(uri)
        return uri
