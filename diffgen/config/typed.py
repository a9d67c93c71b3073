"""Whether a value from a file of settings is what its key wants; the error says what that is."""

from __future__ import annotations

import difflib
import math
import reprlib
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from diffgen.config.budget import Budget
from diffgen.errors import UserError

_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: 'text in quotation marks ("...")'}


class Problem(UserError):
    """What is wrong with a key, as the second half of a sentence."""


def checked(key: str, value: Any, hint: Any) -> Any:
    """A value as the type ``hint`` wants it: a float where TOML gave a whole number, a tuple for a list.

    Where None is allowed, None stays it, and the texts "none" and "auto" give it, unless text itself is allowed.

    Raises:
        Problem: it is of another type.
    """
    if get_origin(hint) in (Union, UnionType):
        kinds = [each for each in get_args(hint) if each is not NoneType]
        if value is None and NoneType in get_args(hint):  # JSON has a null
            return None
        if value in ("none", "auto") and NoneType in get_args(hint) and not _takes_text(kinds[0], value):
            return None
        return checked(key, value, kinds[0])
    if hint is Budget:
        return _budget(key, value)
    if get_origin(hint) is Literal:
        return _one_of(key, value, get_args(hint))
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise Problem(f"the key {key} is {reprlib.repr(value)}; give a list.")
        return tuple(checked(key, each, get_args(hint)[0]) for each in value)
    if not _is(value, hint):
        raise Problem(f"the key {key} is {reprlib.repr(value)}; give {_NAMES[hint]}.")
    return hint(value)


def _takes_text(kind: Any, text: str) -> bool:
    return kind is str or (get_origin(kind) is Literal and text in get_args(kind))


def _is(value: Any, kind: type) -> bool:
    if kind is float:
        # a whole number of any length can be written, but not every one is a float
        return math.isfinite(value) if type(value) is float else type(value) is int and abs(value) <= 1e300
    return type(value) is kind  # True is no number


def _one_of(key: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    if value in allowed and isinstance(value, str):
        return value
    near = difflib.get_close_matches(str(value), allowed, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"give one of {', '.join(map(repr, allowed))}."
    raise Problem(f"the key {key} is {value!r}; {hint}")


def _budget(key: str, value: Any) -> Budget:
    if not isinstance(value, str):
        raise Problem(f'the key {key} is {value!r}; give text such as "60s" or "20000q".')
    try:
        return Budget.parse(value)
    except UserError as error:
        raise Problem(f"the key {key} cannot be: {error}") from error
