"""Pictures of ours on disk: PNG and nothing else, with exactly the bytes of an image."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from diffgen.runs.files import write_whole
from diffgen.runs.opening import read_bytes
from diffgen.tasks.classification import role_name
from diffgen.types import UInt8Array

# a picture that does not shrink, and what a PNG has around it
_AROUND = 2**20
_NAME = re.compile(r"trigger-(\d{6,12})((?:-[A-Z]\d{1,9}){2,26})\.png")


def picture_name(number: int, labels: Sequence[int]) -> str:
    """The file name of a trigger's picture, which carries its number and what each model says."""
    said = "".join(f"-{role_name(index)}{label}" for index, label in enumerate(labels))
    return f"trigger-{number:06d}{said}.png"


def read_picture_name(name: str) -> tuple[int, tuple[int, ...]] | None:
    """Number and labels of what :func:`picture_name` gave; None for any other name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return int(match[1]), tuple(int(each[1:]) for each in match[2].split("-")[1:])


def write_png(path: Path, image: UInt8Array) -> None:
    """Write uint8 (C, H, W) as a PNG that holds exactly these bytes."""
    picture = _picture(image)
    write_whole(path, lambda temporary: picture.save(temporary, format="PNG"), durable=False)


def png_bytes(image: UInt8Array) -> bytes:
    """What :func:`write_png` would write."""
    file = io.BytesIO()
    _picture(image).save(file, format="PNG")
    return file.getvalue()


def _picture(image: UInt8Array) -> Image.Image:
    return Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0))


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
