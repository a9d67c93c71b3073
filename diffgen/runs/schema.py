"""What the JSON files of a run must hold before anything is made of them, as if an enemy had written them.

Types, ranges and sizes; :mod:`diffgen.runs.array_schema` does the same for arrays. What is missing here may be missing
in older runs; what is there must be of its kind. Keys that are not known are left alone, for a later version of diffgen
may have written them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from diffgen.config import MAX_MODELS, roles

Check = Callable[[Any], None]

_LARGEST = 2**53  # beyond it JSON's readers do not agree on whole numbers
_LONGEST = 100_000  # letters of a text
_MOST_PARTS = 100_000  # each holds some thousand triggers
MAX_CLASSES = 100_000


def _refuse(value: object, wanted: str) -> ValueError:
    shown = repr(value)
    return ValueError(f"{shown[:60]}{'...' if len(shown) > 60 else ''} is not {wanted}")


def whole(low: int = 0, high: int = _LARGEST) -> Check:
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
    if not isinstance(value, str) or len(value) > _LONGEST:
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


_SHARE = number(0, 1)
_FILE = fields({"name": text, "path": or_none(text), "sha256": or_none(text)})
_PART = fields({"file": text, "rows": whole()})
_JURY_NOTE = fields({"labels": text, "sha256": text, "threshold": number(), "unaided": number()})
_JURY = fields(
    {"members": whole(), "trained_on": whole(), "agreed": flag, "held_out": whole(), "accuracy": _SHARE}
    | {"threshold": number(), "unaided": number(), "recognised": _SHARE, "reliable": or_none(_SHARE)},
    {"helped": or_none(_SHARE), "helped_right": or_none(_SHARE)},
)

_MODELS = rows(rows(whole(), least=3, most=MAX_MODELS), least=3, most=MAX_MODELS)
_ALONE = fields(dict.fromkeys(("pictures", "behaviours", "wrong", "right"), whole()))
_MANY = fields(
    {"alone": names_to(_ALONE), **dict.fromkeys(("majority", "majority_recognised", "majority_right"), whole())}
    | {"found": _MODELS, "recognised": or_none(_MODELS), "real": _MODELS},
    {"spared": whole()},
)
_PAIR_COUNTS = ("matrix", "pair_counts", "real_matrix")
_NUMBERS = rows(whole(0, MAX_CLASSES - 1), most=MAX_CLASSES)
_MATRIX = rows(rows(whole()), most=MAX_CLASSES)
_PAIRS = fields({"pairs": rows(rows(whole(), least=3, most=3))})


def _pair_counts(value: Any) -> None:
    (_PAIRS if isinstance(value, dict) else _MATRIX)(value)


def _order(value: Any) -> None:
    _NUMBERS(value)
    if len(set(value)) < len(value):
        raise ValueError("an order of classes names one twice")


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
    }
    | {"jury": _JURY_NOTE, "learned_from": or_none(text)}
    | {"technique": text, "extensions": fields({}, {"technique": text, "generator": text, "filters": rows(text)})},
)
#: Of results.json of a search that came to its end.
RESULTS = fields(
    {},
    {
        "schema_version": whole(),
        **dict.fromkeys(("queries", "triggers", "valid_triggers", "distinct_valid_triggers"), whole()),
        **dict.fromkeys(("behaviours", "label_pairs"), whole()),
        **dict.fromkeys(("verified_single", "verified_batch", "unconfirmed", "real_disagreements"), whole()),
        "seconds": number(0),
        "interrupted": flag,
        "saturated": flag,
        "mutated": flag,
        "class_names": rows(class_name, most=MAX_CLASSES),
        "check": fields({"status": text}),
        "preflight": fields(
            {
                "images": whole(),
                "agreement": _SHARE,
                "accuracy": or_none(rows(_SHARE, least=2, most=MAX_MODELS)),
                "outputs": rows(text, least=2, most=MAX_MODELS),
                "numeric_noise": number(0),
                "margin": number(0),
                "warnings": rows(text),
            },
            {"calibration_error": or_none(rows(_SHARE, least=2, most=MAX_MODELS))},
        ),
        "milliseconds": or_none(rows(or_none(number(0)), least=2, most=MAX_MODELS)),
        "filters": rows(fields({"name": text, "description": text, "rejected": whole()})),
        **dict.fromkeys(_PAIR_COUNTS, _pair_counts),
        "history": names_to(rows(number(0))),
        "warnings": rows(text),
        "jury": or_none(_JURY),
        "many": or_none(_MANY),
        "no_jury": text,
        **dict.fromkeys(
            (
                "behaviours_of_agreement",
                "recognised_triggers",
                "recognised_distinct_triggers",
                "recognised_behaviours",
            ),
            or_none(whole()),
        ),
        "verdicts_rest_on": or_none(names_to(whole())),
        "faults": or_none(names_to(fields({"pictures": whole(), "behaviours": whole()}))),
    },
)


def check_agreement(results: Mapping[str, Any]) -> None:
    """See that the figures of results.json fit together.

    Raises:
        ValueError: they do not.
    """
    classes = len(results.get("class_names", ()))
    for name in _PAIR_COUNTS:
        counts = results.get(name)
        if isinstance(counts, dict):
            fits = all(max(a, b) < classes for a, b, _ in counts["pairs"])
        else:
            fits = counts is None or (len(counts) == classes and all(len(row) == classes for row in counts))
        if not fits:
            raise ValueError(f"{name}: it is not one of {classes} classes")
    if len({len(points) for points in results.get("history", {}).values()}) > 1:
        raise ValueError("history: its curves differ in length")
