"""A check as JSON values: what results.json says under "check". docs/reference/check.md explains every entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from dataclasses import fields as fields_of
from typing import Any, TypeVar

from diffgen.config import Limits
from diffgen.gate.conditions import EXIT_CODES, Condition, Status, overall
from diffgen.gate.measured import TITLES, measured
from diffgen.gate.values import (
    AccuracyDrop,
    Behaviour,
    CalibrationRise,
    ClassDrop,
    GateValues,
    KnownBehaviour,
    Rate,
    Replay,
    SearchState,
    Shift,
    Steadiness,
    Undecided,
)
from diffgen.runs.schema import class_name, fields, flag, number, one_of, or_none, rows, text, whole

SCHEMA_VERSION = 1
_SAID_OF_MODELS = ("unsteady", "batched")  # sentences about models, in a Steadiness

_Kind = TypeVar("_Kind", Rate, Undecided, AccuracyDrop, ClassDrop, CalibrationRise, Shift, Replay)


def make_record(
    values: GateValues,
    conditions: tuple[Condition, ...],
    limits: Limits,
    *,
    base: Mapping[str, Any],
    candidate: Mapping[str, Any],
    data: str,
    store: str | None,
    class_names: Sequence[str],
    seconds: float,
) -> dict[str, Any]:
    """Everything about a check as JSON values.

    Args:
        values, conditions, limits: of the check.
        base, candidate: "name" and "sha256" of each.
        data: as the user wrote it.
        store: its folder, or None.
        class_names: K names.
        seconds: that the check took.
    """
    status = overall(conditions)
    return {
        "schema_version": SCHEMA_VERSION,
        "status": status.value,
        "exit_code": EXIT_CODES[status],
        "seconds": round(seconds, 3),
        "base": {"name": base["name"], "sha256": base["sha256"]},
        "candidate": {"name": candidate["name"], "sha256": candidate["sha256"]},
        "data": data,
        "store": store,
        "limits": asdict(limits),
        "conditions": [
            {**asdict(each), "title": TITLES[each.name], "status": each.status.value} for each in conditions
        ],
        "values": {
            "search": asdict(values.search),
            "steadiness": {
                **asdict(values.steadiness),
                **{name: list(getattr(values.steadiness, name)) for name in _SAID_OF_MODELS},
            },
            "smells": list(values.smells),
            "faint_smells": list(values.faint_smells),
            "base_smells": list(values.base_smells),
            "undecided_real": _rate(values.undecided),
            "unanswered_real": _rate(values.unanswered),
            "silences": list(values.silences),
            "background_real": _rate(values.background),
            "classes": None if values.classes is None else list(values.classes),
            "new_behaviours": len(values.new),
            "known_behaviours": len(values.behaviours) - len(values.new),
            "disagreement_real": _rate(values.real),
            "disagreement_random": _rate(values.random),
            "top5_flips_real": _rate(values.top5_real),
            "top5_flips_random": _rate(values.top5_random),
            "random_images": {"drawn": values.drawn, "accepted": values.accepted},
            "variations": {"drawn": values.varied, "accuracy_drop": _drop(values.variations)},
            "new_faults": len(values.new_faults) if values.jury else None,
            "accuracy_drop": _drop(values.accuracy),
            "class_accuracy_drop": _drop(values.class_accuracy),
            "largest_class_drop": _drop(values.largest_class_drop),
            "sure_disagreement_real": _rate(values.sure),
            "class_disagreement_real": _drop(values.class_disagreement),
            "regression_faults": _rate(values.faults),
            "calibration_rise": _drop(values.calibration),
            "labels_alone": list(values.labels_alone),
            "outputs": list(values.outputs),
            "left_out": list(values.left_out),
            "shift_real": _shift(values.shift_real),
            "shift_random": _shift(values.shift_random),
            "replay": {**asdict(values.replay), "agree": values.replay.agree},
        },
        "measured": [
            {**asdict(each), "title": each.title} for each in measured(values, [each.name for each in conditions])
        ],
        "behaviours": [_behaviour(each, class_names) for each in values.behaviours],
        "known": [{**asdict(each), "names": list(each.names)} for each in values.known],
    }


def _behaviour(each: Behaviour, class_names: Sequence[str]) -> dict[str, Any]:
    return {
        "said": list(each.said),
        "names": [class_names[label] for label in each.said],
        "cell": each.cell,
        "pictures": each.count,
        "known_pictures": each.known,
        "new": each.new,
        "faults": each.faults,
        "shift": each.shift,
        "found_by": "replay" if each.replayed else "search",
        "triggers": list(each.triggers),
    }


def _rate(rate: Rate | None) -> dict[str, Any] | None:
    if rate is None:
        return None
    low, high = rate.interval
    return {**asdict(rate), "share": rate.share, "low": low, "high": high}


def _drop(drop: AccuracyDrop | CalibrationRise | None) -> dict[str, Any] | None:
    if drop is None:
        return None
    low, high = drop.interval
    return {**asdict(drop), "share": drop.share, "low": low, "high": high}


def _shift(shift: Shift | None) -> dict[str, Any] | None:
    return None if shift is None else {**asdict(shift), "beyond": shift.beyond}


_RATE = fields({"count": whole(), "of": whole(), "undecided": whole()})
_DROP = fields({name: whole() for name in ("base_right", "candidate_right", "only_base", "of")})


def check_rate(entry: Any) -> None:
    """See that a rate can be; raises ValueError."""
    _RATE(entry)
    if max(entry["count"], entry["undecided"]) > entry["of"]:
        raise ValueError("more images were counted than there are")


def _check_undecided(entry: Any) -> None:
    check_rate(entry)
    fields({}, {"only_base": or_none(whole())})(entry)
    if entry["count"] + (entry.get("only_base") or 0) > entry["of"]:
        raise ValueError("more images were counted than there are")


def check_drop(entry: Any) -> None:
    """See that an accuracy drop can be; raises ValueError."""
    _DROP(entry)
    base, candidate, only_base, of = (entry[name] for name in ("base_right", "candidate_right", "only_base", "of"))
    if not (of > 0 and only_base <= base <= of and 0 <= candidate - (base - only_base) <= of - base):
        raise ValueError("no images could be counted so")


def _check_class_drop(entry: Any) -> None:
    check_drop(entry)
    fields({"label": whole(), "name": class_name, "classes": whole(1)})(entry)


_WORST_CLASSES = ("class_accuracy_drop", "largest_class_drop", "class_disagreement_real")
_SHARE = number(0, 1)
_CHANGE = number(-1, 1)
_CALIBRATION = fields(
    {**dict.fromkeys(("base", "candidate"), _SHARE), **dict.fromkeys(("low", "high"), _CHANGE), "of": whole(1)}
)
_SHIFT = fields({"largest": _SHARE, "of": whole()})
_STATUS = one_of([each.value for each in Status])
_NAMES = rows(class_name, least=2, most=2)
_check_record = fields(
    {
        "status": _STATUS,
        "conditions": rows(
            fields({"name": one_of(TITLES), "status": _STATUS, "limit": text, "sentence": text}, {"title": text})
        ),
        "values": fields(
            {
                "search": fields({"queries": whole(), "problem": text}),
                **dict.fromkeys(("disagreement_real", "disagreement_random"), or_none(check_rate)),
                "random_images": fields({"drawn": whole(), "accepted": whole()}),
                "accuracy_drop": or_none(check_drop),
                **dict.fromkeys(("shift_real", "shift_random"), or_none(_SHIFT)),
                "replay": or_none(fields({name: whole() for name in ("pictures", "still", "changed")})),
            },
            # the first records had no word of these
            {
                "steadiness": fields({"noise": _SHARE, "margin": _SHARE}, dict.fromkeys(_SAID_OF_MODELS, rows(text))),
                **dict.fromkeys(("smells", "faint_smells", "base_smells", "silences"), rows(text)),
                **dict.fromkeys(("undecided_real", "unanswered_real", "background_real"), or_none(_check_undecided)),
                "classes": or_none(rows(whole(), least=2, most=2)),
                **dict.fromkeys(("labels_alone", "left_out"), rows(flag, least=2, most=2)),
                "outputs": rows(text, least=2, most=2),
                **dict.fromkeys(
                    ("top5_flips_real", "top5_flips_random", "sure_disagreement_real"), or_none(check_rate)
                ),
                **dict.fromkeys(_WORST_CLASSES, or_none(_check_class_drop)),
                "calibration_rise": or_none(_CALIBRATION),
                "variations": fields({"drawn": whole(), "accuracy_drop": or_none(check_drop)}),
                "new_faults": or_none(whole()),
            },
        ),
        "behaviours": rows(
            fields(
                {
                    "said": rows(whole(), least=2, most=2),
                    "names": _NAMES,
                    **dict.fromkeys(("cell", "pictures", "known_pictures"), whole()),
                    "new": flag,
                    "shift": _SHARE,
                    "found_by": text,
                    "triggers": rows(whole(-1)),
                },
                {"faults": whole()},
            )
        ),
    },
    {"known": rows(fields({"stored": text, "names": _NAMES, "pictures": whole(), "shift": _SHARE}))},
)


def read_values(record: Mapping[str, Any]) -> GateValues:
    """What :func:`make_record` was given as values; the record may have been changed by somebody since.

    Raises:
        KeyError, TypeError, ValueError: the record is damaged.
    """
    _check_record(record)
    values = record["values"]
    # the first records had no word of it
    steadiness, variations = values.get("steadiness", {}), values.get("variations", {"drawn": 0, "accuracy_drop": None})
    return GateValues(
        steadiness=Steadiness(**steadiness | {name: tuple(steadiness.get(name, ())) for name in _SAID_OF_MODELS}),
        smells=tuple(values.get("smells", ())),
        faint_smells=tuple(values.get("faint_smells", ())),
        base_smells=tuple(values.get("base_smells", ())),
        undecided=_read(Undecided, values.get("undecided_real")),
        unanswered=_read(Undecided, values.get("unanswered_real")),
        silences=tuple(values.get("silences", ())),
        background=_read(Undecided, values.get("background_real")),
        classes=_pair(values.get("classes")),
        labels_alone=_pair(values.get("labels_alone")) or (False, False),
        outputs=_pair(values.get("outputs")) or ("", ""),
        left_out=_pair(values.get("left_out")) or (False, False),
        real=_read(Rate, values["disagreement_real"]),
        random=_read(Rate, values["disagreement_random"]),
        **values["random_images"],
        accuracy=_read(AccuracyDrop, values["accuracy_drop"]),
        class_accuracy=_read(ClassDrop, values.get("class_accuracy_drop")),
        largest_class_drop=_read(ClassDrop, values.get("largest_class_drop")),
        sure=_read(Rate, values.get("sure_disagreement_real")),
        class_disagreement=_read(ClassDrop, values.get("class_disagreement_real")),
        calibration=_read(CalibrationRise, values.get("calibration_rise")),
        variations=_read(AccuracyDrop, variations["accuracy_drop"]),
        varied=variations["drawn"],
        top5_real=_read(Rate, values.get("top5_flips_real")),
        top5_random=_read(Rate, values.get("top5_flips_random")),
        jury=values.get("new_faults") is not None,
        shift_real=_read(Shift, values["shift_real"]),
        shift_random=_read(Shift, values["shift_random"]),
        replay=_read(Replay, values["replay"]) or Replay(),
        search=SearchState(**values["search"]),
        behaviours=tuple(
            Behaviour(
                said=(each["said"][0], each["said"][1]),
                cell=each["cell"],
                count=each["pictures"],
                known=each["known_pictures"],
                shift=each["shift"],
                triggers=tuple(each["triggers"]),
                replayed=each["found_by"] == "replay",
                faults=each.get("faults", 0),
            )
            for each in record["behaviours"]
        ),
        # checks of earlier versions have none
        known=tuple(
            KnownBehaviour(**{**each, "names": (each["names"][0], each["names"][1])})
            for each in record.get("known", ())
        ),
    )


def read_conditions(record: Mapping[str, Any]) -> tuple[Condition, ...]:
    """What :func:`make_record` was given as conditions; raises as :func:`read_values`."""
    _check_record(record)
    found = tuple(
        Condition(each["name"], Status(each["status"]), each["limit"], each["sentence"])
        for each in record["conditions"]
    )
    if overall(found).value != record["status"]:
        raise ValueError(f"its status is {record['status']}, but that of its conditions {overall(found).value}")
    return found


def _pair(entry: Sequence[Any] | None) -> tuple[Any, Any] | None:
    return None if entry is None else (entry[0], entry[1])


def _read(kind: type[_Kind], entry: Mapping[str, Any] | None) -> _Kind | None:
    """Without what follows from the rest, such as the interval."""
    return None if entry is None else kind(**{f.name: entry[f.name] for f in fields_of(kind) if f.name in entry})
