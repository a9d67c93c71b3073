"""How the pictures of a set are read: what travels from the user's options down to every kind of source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from diffgen.config.sizes import ExifRule
from diffgen.data.resize import Resizer
from diffgen.errors import UserError
from diffgen.events import Progress

_NAMED = 5


@dataclass(frozen=True)
class Reading:
    """What is asked for of any source.

    Attributes:
        source: as the user wrote it.
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
    """Pictures of a set that cannot be used: all of them are named at once.

    Attributes:
        names: of those that were met.
    """

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
