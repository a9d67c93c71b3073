"""One picture file: decoded to grey levels or colours, and encoded."""

from __future__ import annotations

import io
import re

import numpy as np
from PIL import Image, UnidentifiedImageError

from diffgen.data.reading import PictureNotes
from diffgen.errors import UserError
from diffgen.types import UInt8Array

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff"})
# Only these of Pillow's decoders are let near a file, whatever its suffix says.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "PPM", "TIFF")
# How files of these formats begin. Two letters of text begin a bitmap too, so that the size of its header tells it.
_BEGINNINGS = re.compile(
    rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|RIFF....WEBP|P[1-6]\s+[#\d]|II\*\0|MM\0\*"
    rb"|BM.{12}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0",
    re.DOTALL,
)
_MAX_PIXELS = 2**26  # what cameras make has fewer; of a decompression bomb nothing is decoded
_KEPT_BITS = 8
_SIXTEEN_BITS = 2**16
_OPAQUE = 255
_ORIENTATION = 0x0112  # in EXIF data; 1 and what is not listed: as it is
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_GREY_MODES = ("1", "L", "LA", "La")
_PALETTE_MODES = ("P", "PA")
_COLOUR_MODES = ("RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr")


def begins_as_picture(head: bytes) -> bool:
    """Whether the first bytes of a file are those of a picture that :func:`decode` knows."""
    return _BEGINNINGS.match(head) is not None


def decode(content: bytes, name: str, source: str, notes: PictureNotes | None = None) -> UInt8Array:
    """The pixels of a picture file.

    Black and white, grey, 16-bit grey (the upper 8 of the bits that the notes say are kept) and a palette of which only
    greys are used give one channel, everything else three. A palette has no number of channels, and GIF and tools that
    shrink PNG files write grey pictures with one; an RGB file keeps its three channels even if all of them are equal.
    Transparent parts show white, as a viewer would show them. An orientation in the EXIF data is followed where the
    notes say so: the loaders of torchvision and Keras do not follow it, OpenCV's does. (Pillow itself turns TIFF.)

    Args:
        source: the data set that it is from, for messages.
        notes: about the set, or None: it is of no set.

    Returns:
        uint8 (H, W) for grey, (H, W, 3) for RGB.

    Raises:
        UserError: damaged, no picture, too large, animated, or with values that have no 8-bit meaning.
    """
    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
            if image.width * image.height > _MAX_PIXELS:
                raise UserError(
                    f"The image {name!r} in {source!r} has {image.width}x{image.height} pixels; scale the images down."
                )
            if getattr(image, "n_frames", 1) > 1:
                raise UserError(f"The image {name!r} in {source!r} has several frames; save one of them as a picture.")
            notes = PictureNotes() if notes is None else notes
            return _pixels(_turned(image, notes), name, source, notes)
    except UserError:
        raise
    except UnidentifiedImageError as error:  # its own text names an address in memory
        raise UserError(f"The image {name!r} in {source!r} is damaged or not an image; repair or remove it.") from error
    except Exception as error:  # Pillow's decoders raise a dozen types on damaged files, SyntaxError among them
        raise UserError(f"The image {name!r} in {source!r} is damaged ({error}); repair or remove it.") from error


def decode_mask(content: bytes, name: str, source: str) -> UInt8Array:
    """The numbers in a mask: its grey levels, or those of the colours in its palette, which mean nothing.

    Returns:
        uint8 (H, W).

    Raises:
        UserError: it is no PNG of one such number for each pixel.
    """
    try:
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            if image.width * image.height <= _MAX_PIXELS and image.mode in ("L", "P", "1"):
                return np.array(image, dtype=np.uint8)
            said = f"has {image.width}x{image.height} pixels of type {image.mode!r}"
    except Exception as error:  # as in decode
        said = f"cannot be read ({type(error).__name__})"
    raise UserError(
        f"The mask {name!r} in {source!r} {said}; save it as a PNG of 8 bits a pixel, grey or with a palette, each the "
        "number of a class."
    )


def size_of(content: bytes, *, upright: bool) -> tuple[int, int]:
    """Height and width of a picture that :func:`decode` has read before, as its head says.

    Args:
        upright: whether pictures are turned as their EXIF orientation says.
    """
    with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
        turned = _turned(image, PictureNotes(upright=True)) if upright else image
        return turned.height, turned.width


def _turned(image: Image.Image, notes: PictureNotes) -> Image.Image:
    """The picture as its EXIF orientation says, where the notes want it so."""
    image.load()
    try:
        way = _TURNS.get(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged EXIF data, about which Pillow raises several types, say nothing; the pixels are whole
        return image
    if way is None:
        return image
    notes.note_orientation()
    return image.transpose(way) if notes.upright else image


def _pixels(image: Image.Image, name: str, source: str, notes: PictureNotes) -> UInt8Array:
    if image.mode.startswith("I"):
        levels = np.asarray(image)
        if levels.min() >= 0 and levels.max() < _SIXTEEN_BITS:
            notes.note_levels(int(levels.max()))
            return (levels >> (notes.bits - _KEPT_BITS)).astype(np.uint8)
    elif image.mode in _GREY_MODES:
        return np.asarray(_on_white(image, notes).convert("L"))
    elif image.mode in _PALETTE_MODES:
        colours = np.asarray(_on_white(image, notes).convert("RGB"))
        return colours[..., 0] if (colours == colours[..., :1]).all() else colours
    elif image.mode in _COLOUR_MODES:
        return np.asarray(_on_white(image, notes).convert("RGB"))
    raise UserError(
        f"The image {name!r} in {source!r} has pixels of type {image.mode!r}; save it as 8-bit grey or RGB."
    )


def _on_white(image: Image.Image, notes: PictureNotes) -> Image.Image:
    if not image.has_transparency_data:
        return image
    layered = image.convert("RGBA")
    if layered.getchannel("A").getextrema() != (_OPAQUE, _OPAQUE):
        notes.note_transparency()
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), layered)
