"""Pictures of ours on disk: PNG and nothing else, with exactly the bytes of an image."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from diffgen.runs.opening import read_bytes
from diffgen.types import UInt8Array

# a picture that does not shrink, and what a PNG has around it
_AROUND = 2**20


def read_png(path: Path, shape: Sequence[int]) -> UInt8Array:
    """A picture that diffgen wrote; nothing is decoded unless its head says the expected size.

    Args:
        path: the file; no symbolic link.
        shape: (C, H, W) that it must have, C 1 or 3.

    Returns:
        uint8 (C, H, W).

    Raises:
        OSError: missing, a link, or no regular file.
        ValueError: no PNG, damaged, or of another size or kind of colours.
    """
    channels, height, width = (int(side) for side in shape)
    content = read_bytes(path, longest=2 * channels * height * width + _AROUND, links=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # such a size is refused below
            opened = Image.open(io.BytesIO(content), formats=("PNG",))
        with opened as picture:
            wanted = ("L" if channels == 1 else "RGB", (width, height))
            if (picture.mode, picture.size) != wanted:
                raise ValueError(
                    f"it has {picture.width}x{picture.height} pixels of kind {picture.mode}, not {width}x{height} of "
                    f"kind {wanted[0]}"
                )
            if getattr(picture, "n_frames", 1) != 1:
                raise ValueError("it has several frames")
            pixels = np.asarray(picture)
    except ValueError:
        raise
    except Exception as error:  # Pillow's decoder raises a dozen types on damaged files, and for a bomb one of its own
        raise ValueError("it is damaged or no PNG") from error
    return pixels[None] if channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))
