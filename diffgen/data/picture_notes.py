"""What is only known of a set of pictures once all were decoded: depth of 16-bit ones, transparency, orientation."""

from __future__ import annotations

from threading import Lock

DEEPEST = 16  # bits a pixel
_DEPTHS = (8, 10, 12, 14, DEEPEST)  # that cameras and scanners have


class PictureNotes:
    """What decoding notes about the pictures of one set; any thread may note.

    Args:
        bits: that 16-bit pictures are read as; the upper 8 of them are kept.
        upright: whether pictures are turned as their EXIF orientation says.
    """

    def __init__(self, bits: int = DEEPEST, *, upright: bool = False) -> None:
        self.bits, self.upright = bits, upright
        self._highest, self._deep, self._transparent, self._turned = 0, 0, 0, 0
        self._lock = Lock()

    def note_levels(self, highest: int) -> None:
        """Take note of the highest value of a 16-bit picture."""
        with self._lock:
            self._deep += 1
            self._highest = max(self._highest, highest)

    def note_transparency(self) -> None:
        """Take note of a picture with transparent parts."""
        with self._lock:
            self._transparent += 1

    def note_orientation(self) -> None:
        """Take note of a picture whose EXIF data say that it is to be turned or mirrored."""
        with self._lock:
            self._turned += 1

    @property
    def bits_held(self) -> int:
        """The fewest usual bits that hold every value of the 16-bit pictures that were noted; 16 where all are 0."""
        if self._highest == 0:
            return DEEPEST
        return next(bits for bits in _DEPTHS if self._highest < 2**bits)

    def about_depth(self, count: int, source: str) -> str:
        """How the 16-bit ones among ``count`` pictures were read, in a sentence; empty for the usual way."""
        if self.bits == DEEPEST:
            return ""
        return (
            f"{self._deep:,} of the {count:,} images of {source!r} have 16 bits a pixel and no value above "
            f"{self._highest:,}; they are read as {self.bits} bits, of which {2**self.bits - 1:,} is white."
        )

    def about_transparency(self, count: int, source: str) -> str:
        """How many of ``count`` pictures have transparent parts, in a sentence; empty for none."""
        if not self._transparent:
            return ""
        return (
            f"{self._transparent:,} of the {count:,} images of {source!r} have transparent parts, which are read as "
            "white; torchvision's ImageFolder shows the colours below them, so save the images without transparency "
            "as the models know them."
        )

    def about_orientation(self, count: int, source: str) -> str:
        """How many of ``count`` pictures have an EXIF orientation, in a sentence; empty for none."""
        if not self._turned:
            return ""
        have = f"{self._turned:,} of the {count:,} images of {source!r} have an EXIF orientation"
        if self.upright:
            return f"{have}, and are turned as it says (--exif apply)."
        return (
            f"{have}, which is not followed, as in torchvision's ImageFolder; say --exif apply if the models are fed "
            "upright images, as OpenCV and Hugging Face's datasets read them."
        )
