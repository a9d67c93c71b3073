"""The order in which classes are numbered that only have names: the same for every kind of source."""

from __future__ import annotations

from collections.abc import Iterable

from diffgen.events import Progress


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
        progress: is told.
    """
    if list(names) != sorted(names):
        progress.say(
            f"{what} are numbered by value, 2 before 10; a model whose training sorted them as text, as torchvision's "
            "ImageFolder does, numbers its classes otherwise."
        )
