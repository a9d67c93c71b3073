"""Pictures as data URIs, and the limit on how many bytes of them one page holds."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

from diffgen.types import UInt8Array

#: Longest edge that goes into the page exactly, as PNG.
LARGEST_EXACT = 96
#: Longest edge of larger pictures, which are shown as WebP, larger ones reduced (the run folder has them exactly).
LARGEST_EDGE = 224
_WEBP_QUALITY = 90  # a photograph of 224 pixels takes half of what a PNG takes that is reduced to 96


def encoded(image: UInt8Array, largest: int = LARGEST_EDGE) -> tuple[str, bytes]:
    """``uint8 (C, H, W)`` with one or three channels as a file: what it is ("png" or "webp"), and its bytes.

    Args:
        image: exact up to ``LARGEST_EXACT``.
        largest: longest edge of larger ones.

    Raises:
        ValueError: the array is not such an image.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[0] not in (1, 3):
        raise ValueError(f"an image for the report is uint8 (1 or 3, H, W), not {image.dtype} {image.shape}")
    pixels = image[0] if image.shape[0] == 1 else np.moveaxis(image, 0, 2)
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    buffer = io.BytesIO()
    if max(picture.size) <= LARGEST_EXACT:
        picture.save(buffer, format="PNG", optimize=True)
        return "png", buffer.getvalue()
    if max(picture.size) > largest:
        picture.thumbnail((largest, largest), Image.Resampling.BOX)
    picture.save(buffer, format="WEBP", quality=_WEBP_QUALITY)
    return "webp", buffer.getvalue()


def data_uri(image: UInt8Array, largest: int = LARGEST_EDGE) -> str:
    """``uint8 (C, H, W)`` as ``data:image/png;base64,...`` or ``data:image/webp;base64,...``; see :func:`encoded`."""
    kind, content = encoded(image, largest)
    return f"data:image/{kind};base64," + base64.b64encode(content).decode("ascii")


def display_size(image: UInt8Array, target: int) -> tuple[int, int]:
    """Width and height in CSS pixels close to ``target``.

    Small pictures get a whole multiple of their size, so that every pixel of theirs is equally large on the screen.
    """
    _, height, width = image.shape
    longest = max(height, width)
    scale = max(1, round(target / longest)) if longest <= target else target / longest
    return max(1, round(width * scale)), max(1, round(height * scale))


class PictureBudget:
    """Hands out data URIs until ``limit`` bytes are used up; what comes later gets None.

    Attributes:
        left: bytes.
    """

    def __init__(self, limit: int) -> None:
        self.left = limit

    def take(self, image: UInt8Array, *, leave: int = 0, largest: int = LARGEST_EDGE) -> str | None:
        """The data URI of ``image``, or None when it no longer fits and leaves ``leave`` bytes for other pictures."""
        uri = data_uri(image, largest)
        if len(uri) > self.left - leave:
            # Everything after the first picture that does not fit is left out too: a page that skips large pictures
            # and shows small ones would not be a fair sample.
            self.left = min(self.left, leave)
            return None
        self.left -= len(uri)
        return uri
