"""The key of each class when somebody labels by keyboard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

_IN_TURN = "0123456789abcdefghijklmnopqrstuvwyz"  # for classes that are called by more than one character
_INVALID = "x-.,"  # the first that is no class's


def keys_of(class_names: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """A key for each class as long as they last, and the one for a picture that shows none of them.

    A class that is called by one character has that key, so that nobody who types what is seen says something
    else. Two that differ in their case alone have none.

    Args:
        class_names: K names.

    Returns:
        K keys, lower case, empty for a class that is chosen by its name; and the key of "invalid".
    """
    names = [name.strip().lower() for name in class_names]
    counts = Counter(name for name in names if len(name) == 1)
    invalid = next((key for key in _INVALID if key not in counts), "")
    free = (key for key in _IN_TURN if key not in counts)
    keys = [("" if counts[name] > 1 else name) if name in counts else next(free, "") for name in names]
    return tuple(keys), invalid
