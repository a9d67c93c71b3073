"""What a run folder must hold before anything is made of it: types, ranges and sizes, as if an enemy had written it.

What is missing here may be missing in older runs; what is there must be of its kind. Keys that are not known are left
alone, for a later version of diffgen may have written them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from diffgen.config import MAX_MODELS, roles

Check = Callable[[Any], None]

_LARGEST = 2**53  # beyond it JSON's readers do not agree on whole numbers
_LONGEST = 100_000  # letters of a text
_MAX_CLASSES = 100_000


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
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise _refuse(value, f"a list of {least} or more" if least else "a list")
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
    {"helped": or_none(_SHARE)},
)

_MODELS = rows(rows(whole(), least=3, most=MAX_MODELS), least=3, most=MAX_MODELS)
_ALONE = fields(dict.fromkeys(("pictures", "behaviours", "wrong", "right"), whole()))
_MANY = fields(
    {"alone": names_to(_ALONE), **dict.fromkeys(("majority", "majority_recognised", "majority_right"), whole())}
    | {"found": _MODELS, "recognised": or_none(_MODELS), "real": _MODELS},
    {"spared": whole()},
)
_PAIR_COUNTS = ("matrix", "pair_counts", "real_matrix")
_MATRIX = rows(rows(whole()), most=_MAX_CLASSES)
_PAIRS = fields({"pairs": rows(rows(whole(), least=3, most=3))})


def _pair_counts(value: Any) -> None:
    (_PAIRS if isinstance(value, dict) else _MATRIX)(value)


#: Of every manifest, also one that was just begun.
MANIFEST = fields(
    {"schema_version": whole(), "parts": rows(_PART)},
    {"status": text, "version": text, "created": text, "command": text, "versions": names_to(text), "device": text},
)
#: Of the manifest of a run whose models and data are asked for again.
DESCRIPTION = fields(
    {
        "version": text,
        "created": text,
        "command": text,
        "files": fields({"A": _FILE, "B": _FILE}, dict.fromkeys(roles(MAX_MODELS), _FILE)),
        "data": fields({"source": text, "path": or_none(text), "sha256": or_none(text)}),
    },
    {
        "status": text,
        "threads": whole(),
        "worker_threads": whole(),
        "gan": or_none(text),
        "generator": or_none(table),
        "check": or_none(table),
    }
    | {"jury": _JURY_NOTE, "learned_from": or_none(text)}
    | {"technique": text, "extensions": fields({}, {"technique": text, "generator": text, "filters": rows(text)})},
)
#: Of results.json of a search that came to its end.
RESULTS = fields(
    {},
    {
        "schema_version": whole(),
        **dict.fromkeys(("queries", "triggers", "valid_triggers", "behaviours", "label_pairs"), whole()),
        **dict.fromkeys(("verified_single", "verified_batch", "unconfirmed", "real_disagreements"), whole()),
        "seconds": number(0),
        "interrupted": flag,
        "saturated": flag,
        "mutated": flag,
        "class_names": rows(class_name, most=_MAX_CLASSES),
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
            ("recognised_triggers", "recognised_distinct_triggers", "recognised_behaviours"), or_none(whole())
        ),
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


# -- arrays ----------------------------------------------------------------------------------------------------------

_IMAGES, _PROBABILITIES = ("u1", 4), ("f", 3)
_ROWS, _NUMBERS = ("i", 1), ("f", 1)
_TEXTS = ("S", 1)
_LONGEST_RECIPE = 10_000  # bytes
_LAST_OF_ASCII = 127
# name -> kind of the numbers and number of axes
_ARRAYS: dict[str, dict[str, tuple[str, int]]] = {
    "part": {
        "images": _IMAGES,
        "probabilities": _PROBABILITIES,
        "query": _ROWS,
        "generation": _ROWS,
        "seeds": _ROWS,
        "recipes": _TEXTS,
        "divergence": _NUMBERS,
        "diversity": _NUMBERS,
        "hashes": ("u1", 2),
        "genes": ("f", 2),
        "classes": ("i", 2),
    },
    "verdicts": {
        "scores": ("f", 2),
        "rejected_by": _ROWS,
        "confirmed": _ROWS,
        "cells": _ROWS,
        "near_duplicate_of": _ROWS,
        "seed_labels": _ROWS,
        "named": _ROWS,
        "certainty": _NUMBERS,
        "recognised": ("b", 1),
    },
    "report": {
        "shown": _ROWS,
        "rejected": _ROWS,
        "nearest_real": _IMAGES,
        "shown_scores": ("f", 2),
        "held_out_scores": ("f", 2),
        "samples": _IMAGES,
        "real_rows": _ROWS,
        "real_images": _IMAGES,
        "real_probabilities": _PROBABILITIES,
        "real_labels": _ROWS,
    },
    "shrunk": {
        "numbers": _ROWS,
        "agreeing": _IMAGES,
        "agreeing_latents": ("f", 2),
        "agreeing_probabilities": _PROBABILITIES,
        "triggers": _IMAGES,
        "trigger_latents": ("f", 2),
        "trigger_probabilities": _PROBABILITIES,
        "before": _NUMBERS,
        "difference": _NUMBERS,
    },
    "operators": {
        "operators": _TEXTS,
        "names": _TEXTS,
        "units": _TEXTS,
        "strengths": _NUMBERS,
        "accuracy": ("f", 2),
        "disagreement": _NUMBERS,
    },
    "check": {"images": _IMAGES, "probabilities": _PROBABILITIES, "classes": ("i", 2)},
    "labels": {"hashes": ("u1", 2), "labels": _ROWS},
    "rank": {"hashes": ("u1", 2), "said": ("i", 2), "guessed": ("f", 2), "chance": _NUMBERS},
    "selection": {"shown": _ROWS, "rows": _ROWS},
}
# arrays of numbers of triggers
_OF_TRIGGERS = {"report": ("shown", "rejected"), "shrunk": ("numbers",), "selection": ("shown", "rows")}
_MAY_BE_MISSING = {"diversity", "scores", "shown_scores", "accuracy"}  # NaN stands for what was not asked
_MAY_BE_MISSING_VERDICTS = ("near_duplicate_of", "seed_labels", "named", "certainty", "recognised")
_CONFIRMATIONS = 2  # the highest number that says how a trigger was confirmed


def check_arrays(name: str, arrays: Mapping[str, Any], *, triggers: int | None = None) -> None:
    """See that arrays of a run are of their kinds, and that what counts triggers counts ``triggers`` of them.

    Args:
        name: "part", "verdicts", "report", "operators", "shrunk", "check", "labels", "rank" or "selection".
        arrays: by name, with JSON values among them.
        triggers: how many the run has, or None: not known.

    Raises:
        ValueError: they are not.
    """
    for key, (kind, axes) in _ARRAYS.get(name, {}).items():
        if key in arrays:
            _check_kind(key, arrays[key], kind, axes)
    if triggers is not None:
        for key in _OF_TRIGGERS.get(name, ()):
            numbers = arrays.get(key)
            if numbers is not None and len(numbers) and not (numbers.min() >= 0 and numbers.max() < triggers):
                raise ValueError(f"{key}: it names triggers that the run does not have")
        if name == "verdicts" and "confirmed" in arrays:
            _check_verdicts(arrays, triggers)
    if name == "operators":
        _check_curves(arrays)
    if "classes" in arrays and name in ("part", "check"):
        _check_kept(arrays["classes"], arrays["probabilities"])
    if name in ("selection", "labels") and not isinstance(arrays.get("about", {}), dict):
        raise ValueError("about: it is no table")
    if name == "rank":
        _check_rank(arrays)


def _check_rank(arrays: Mapping[str, Any]) -> None:
    models = arrays["said"].shape[1]
    fields({"images": whole(1), "disagreements": whole(1), "guessed": rows(number(0), least=models, most=models)})(
        arrays["about"]
    )
    if len({len(arrays[key]) for key in _ARRAYS["rank"]}) > 1 or arrays["guessed"].shape[1] != models:
        raise ValueError("said: its arrays differ in length")
    if not ((arrays["chance"] > 0) & (arrays["chance"] <= 1)).all():
        raise ValueError("chance: it holds numbers that are none")


def _check_kind(key: str, array: Any, kind: str, axes: int) -> None:
    if not isinstance(array, np.ndarray) or array.ndim != axes:
        raise ValueError(f"{key}: it is not of {axes} axes")
    found = array.dtype
    fits = found == np.uint8 if kind == "u1" else found.kind in ("iu" if kind == "i" else kind)
    if not fits or not found.isnative:
        raise ValueError(f"{key}: it holds numbers of type {found}")
    if (kind, axes) == _IMAGES and (array.shape[1] not in (1, 3) or 0 in array.shape[2:]) and len(array):
        raise ValueError(f"{key}: it holds no images but shape {array.shape}")
    if (kind, axes) == _PROBABILITIES and not 2 <= array.shape[1] <= MAX_MODELS and len(array):
        raise ValueError(f"{key}: it is of {array.shape[1]} models")
    if kind == "S" and found.itemsize > _LONGEST_RECIPE:
        raise ValueError(f"{key}: it holds texts that are too long")
    if kind == "S" and np.frombuffer(array.tobytes(), np.uint8).max(initial=0) > _LAST_OF_ASCII:
        raise ValueError(f"{key}: it holds letters that no recipe has")
    if kind == "f":
        known = array[~np.isnan(array)] if key in _MAY_BE_MISSING else array
        if not np.isfinite(known).all() and key not in ("held_out_scores", *_MAY_BE_MISSING):
            raise ValueError(f"{key}: it holds numbers that are not finite")


def _check_kept(classes: Any, probabilities: Any) -> None:
    if (len(classes), classes.shape[1]) != (len(probabilities), probabilities.shape[2]):
        raise ValueError("classes: they are not those of the probabilities")
    if classes.size and not (classes[:, 0].min() >= 0 and classes[:, -1].max() < _MAX_CLASSES):
        raise ValueError("classes: it holds numbers that no class has")
    if not (np.diff(classes, axis=1) > 0).all():
        raise ValueError("classes: they do not ascend")


def _check_curves(arrays: Mapping[str, Any]) -> None:
    if len({len(arrays[key]) for key in _ARRAYS["operators"]}) > 1:
        raise ValueError("its curves differ in length")
    fields({"images": whole(1), "judged_by": one_of(("label", "jury", "nobody"))})(arrays["about"])


def _check_verdicts(arrays: Mapping[str, Any], triggers: int) -> None:
    optional = [key for key in _MAY_BE_MISSING_VERDICTS if key in arrays]
    for key in ("scores", "rejected_by", "confirmed", "cells", *optional):
        if len(arrays[key]) != triggers:
            raise ValueError(f"{key}: it is of {len(arrays[key]):,} triggers, not of {triggers:,}")
    rejected, confirmed = arrays["rejected_by"], arrays["confirmed"]
    if triggers and not (rejected.min() >= -1 and rejected.max() < max(arrays["scores"].shape[1], 1)):
        raise ValueError("rejected_by: it names filters that the run does not have")
    if triggers and not (confirmed.min() >= 0 and confirmed.max() <= _CONFIRMATIONS):
        raise ValueError("confirmed: it holds numbers that mean nothing")
    jury = [key for key in ("named", "certainty", "recognised") if key in arrays]
    if len(jury) not in (0, 3):
        raise ValueError(f"{jury[0]}: what else the jury said is missing")
