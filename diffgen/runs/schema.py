"""What the JSON files of a run must hold before anything is made of them, as if an enemy had written them.

Types, ranges and sizes; :mod:`diffgen.runs.arrays` does the same for arrays, and :mod:`diffgen.runs.results` for the
figures. Keys that are not known are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from pydantic import ValidationError

from diffgen.config import MAX_MODELS, roles

Check = Callable[[Any], None]

LARGEST = 2**53  # beyond it JSON's readers do not agree on whole numbers
LONGEST = 100_000  # letters of a text
_MOST_PARTS = 100_000  # each holds some thousand triggers
MAX_CLASSES = 100_000


def _refuse(value: object, wanted: str) -> ValueError:
    shown = repr(value)
    return ValueError(f"{shown[:60]}{'...' if len(shown) > 60 else ''} is not {wanted}")


def first_problem(error: ValidationError) -> str:
    """Where what pydantic read was wrong first, and how."""
    problem = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"[:200]


def whole(low: int = 0, high: int = LARGEST) -> Check:
    """A whole number from ``low`` to ``high``."""

    def check(value: Any) -> None:
        if type(value) is not int or not low <= value <= high:
            raise _refuse(value, f"a whole number from {low} to {high}")

    return check


def number(low: float = -1e300, high: float = 1e300) -> Check:
    """A finite number from ``low`` to ``high``."""

    def check(value: Any) -> None:
        if type(value) not in (int, float) or not low <= value <= high:
            raise _refuse(value, "a finite number" if high > 1 else f"a number from {low:g} to {high:g}")

    return check


def text(value: Any) -> None:
    """Text of a bounded length that can be written as UTF-8."""
    if not isinstance(value, str) or len(value) > LONGEST:
        raise _refuse(value, "a text")
    value.encode("utf-8")


def class_name(value: Any) -> None:
    """Printable text, as models and data must have it: it ends up on the screen, which obeys control characters."""
    text(value)
    if not value or not value.isprintable():
        raise _refuse(value, "a name of a class")


def one_of(values: Collection[str]) -> Check:
    """One of some texts."""

    def check(value: Any) -> None:
        if not isinstance(value, str) or value not in values:
            raise _refuse(value, f"one of {', '.join(values)}")

    return check


def flag(value: Any) -> None:
    """True or false."""
    if type(value) is not bool:
        raise _refuse(value, "true or false")


def table(value: Any) -> None:
    """Any names and values."""
    if not isinstance(value, dict):
        raise _refuse(value, "a table")


def or_none(check: Check) -> Check:
    """Null, or what ``check`` takes."""
    return lambda value: None if value is None else check(value)


def rows(check: Check, *, least: int = 0, most: int = 5_000_000) -> Check:
    """A list of things that ``check`` takes, from ``least`` to ``most`` of them."""

    def check_all(value: Any) -> None:
        if not isinstance(value, list) or len(value) < least:
            raise _refuse(value, f"a list of {least} or more" if least else "a list")
        if len(value) > most:
            raise ValueError(f"it has {len(value)} entries, and at most {most} can be")
        for each in value:
            check(each)

    return check_all


def names_to(check: Check) -> Check:
    """A table from any names to things that ``check`` takes."""

    def check_all(value: Any) -> None:
        table(value)
        for name, each in value.items():
            text(name)
            check(each)

    return check_all


def fields(must: Mapping[str, Check], may: Mapping[str, Check] | None = None) -> Check:
    """A table that has all names of ``must`` and some of ``may``; other names are left alone."""

    def check_all(value: Any) -> None:
        table(value)
        for name, check in {**must, **(may or {})}.items():
            if name not in value:
                if name in must:
                    raise ValueError(f"it has no {name!r}")
                continue
            try:
                check(value[name])
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error

    return check_all


_FILE = fields({"name": text, "path": or_none(text), "sha256": or_none(text)})
_PART = fields({"file": text, "rows": whole()})
_NUMBERS = rows(whole(0, MAX_CLASSES - 1), most=MAX_CLASSES)


def _order(value: Any) -> None:
    _NUMBERS(value)
    if len(set(value)) < len(value):
        raise ValueError("an order of classes names one twice")


_JURY_NOTE = fields({"labels": text, "sha256": text, "threshold": number(), "unaided": number()}, {"order": _order})


#: Of every manifest, also one that was just begun.
MANIFEST = fields(
    {"schema_version": whole(), "parts": rows(_PART, most=_MOST_PARTS)},
    {"status": text, "version": text, "created": text, "command": text, "versions": names_to(text), "device": text},
)
#: Of the manifest of a run whose models and data are asked for again.
DESCRIPTION = fields(
    {
        "version": text,
        "created": text,
        "command": text,
        "files": fields({"A": _FILE, "B": _FILE}, dict.fromkeys(roles(MAX_MODELS), _FILE)),
        "data": fields({"source": text, "path": or_none(text), "sha256": or_none(text)}, {"label_order": _order}),
    },
    {
        "status": text,
        "threads": whole(),
        "worker_threads": whole(),
        "gan": or_none(text),
        "generator": or_none(table),
        "check": or_none(fields({}, {"store": or_none(text)})),
        "warnings": rows(text),
        "answers": names_to(fields({"stage": text, "text": text, "seconds": number(0)})),
    }
    | {"jury": _JURY_NOTE, "learned_from": or_none(text)}
    | {"technique": text, "extensions": fields({}, {"technique": text, "generator": text, "filters": rows(text)})},
)
