"""How the pictures of a set are read: what travels from the user's options down to every kind of source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from diffgen.config.images import ExifRule
from diffgen.data.checks import MAX_CLASSES
from diffgen.data.resize import Resizer
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.types import Int64Array

_NAMED = 5


@dataclass(frozen=True)
class Reading:
    """What is asked for of any source.

    Attributes:
        resizer: says what size pictures are brought to.
        skip_broken: leave out pictures that cannot be used, instead of refusing the set.
        exif: whether pictures are turned as their EXIF orientation says.
        progress: is told how far the reading is.
    """

    source: str
    resizer: Resizer = field(default_factory=Resizer)
    skip_broken: bool = False
    exif: ExifRule = "ignore"
    progress: Progress = field(default_factory=Progress)


class Broken:
    """Pictures of a set that cannot be used: all of them are named at once."""

    def __init__(self, reading: Reading, count: int) -> None:
        self._reading, self._count = reading, count
        self.names: list[str] = []
        self._first: UserError | None = None

    def note(self, name: str, error: UserError) -> None:
        """Take note of one; reading goes on."""
        if self._first is None:
            self._first = error
            if not self._reading.skip_broken:
                self._reading.progress.detail(f"{error} Reading on, to name all that are broken.")
        self.names.append(name)

    @property
    def fatal(self) -> bool:
        """Whether the set is to be refused."""
        return bool(self.names) and not self._reading.skip_broken

    def check(self) -> str:
        """What was left out, in a sentence; empty for nothing.

        Raises:
            UserError: there are some, and nobody said that they are to be left out.
        """
        if self._first is None:
            return ""
        source, count = self._reading.source, len(self.names)
        if self._reading.skip_broken:
            left_out = f"Left out {count:,} of the {self._count:,} images of {source!r} as broken"
            return f"{left_out}: {some(self.names)}."
        first = str(self._first).removesuffix(".")
        if count == 1:
            raise UserError(f"{first}, or leave it out with --skip-broken.")
        raise UserError(
            f"{first}, repair also {some(self.names[1:])}, or leave all {count:,} of the {self._count:,} images out "
            "with --skip-broken."
        )


def some(names: Sequence[str]) -> str:
    """The first of some names in quotes, and how many more there are."""
    shown = [repr(name) for name in names[:_NAMED]]
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(shown) + more


def real(*sentences: str) -> tuple[str, ...]:
    """Those that are not empty."""
    return tuple(sentence for sentence in sentences if sentence)


# -- the order in which classes are numbered that only have names ----------------------------------------------------


def sorted_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names of classes in the order of their numbers: by value where all are numbers (2 before 10), else as text."""
    known = list(names)
    if all(name.isascii() and name.isdecimal() for name in known):
        # by value without int(), which refuses very long numbers
        return tuple(sorted(known, key=lambda name: (len(name.lstrip("0")), name.lstrip("0"), name)))
    return tuple(sorted(known))


def say_order(names: tuple[str, ...], what: str, progress: Progress) -> None:
    """Say how classes are numbered, where a program that sorts their names as text numbers them otherwise.

    Args:
        names: from :func:`sorted_names`.
        what: the classes, in the plural, as the sentence begins.
    """
    if list(names) != sorted(names):
        progress.say(
            f"{what} are numbered by value, 2 before 10; a model whose training sorted them as text, as torchvision's "
            "ImageFolder does, numbers its classes otherwise."
        )


def numbered(
    texts: Sequence[str], names: tuple[str, ...] | None, source: str, progress: Progress
) -> tuple[Int64Array, tuple[str, ...]]:
    """Numbers for labels that are texts, int64 (N,), and the class names in that order.

    Args:
        texts: one for each image.
        names: of the classes in their order; None: the texts themselves, see :func:`sorted_names`.
        source: the data set that they are from, for messages.
        progress: is told in which order texts are numbered.

    Raises:
        UserError: they are too many to be classes, or one is none of the names.
    """
    known = names if names is not None else sorted_names(set(texts))
    if len(known) > MAX_CLASSES:
        raise UserError(f"The labels of {source!r} are {len(known)} different texts; give the class of each image.")
    number = {name: position for position, name in enumerate(known)}
    strange = next((text for text in texts if text not in number), None)
    if strange is not None:
        raise UserError(f"The label {strange!r} of {source!r} is not among its class_names; add it there.")
    if names is None:
        say_order(known, f"The labels of {source!r}", progress)
    return np.array([number[text] for text in texts], dtype=np.int64), known


# -- what is only known once all pictures were decoded: depth of 16-bit ones, transparency, orientation --------------

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
