"""A check as JSON values: what results.json says under "check". docs/reference/check.md explains every entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from diffgen.config import Limits
from diffgen.gate.conditions import CRITERIA, TITLES, table
from diffgen.gate.measurements import Measurement
from diffgen.gate.rules import EXIT_CODES, Condition, Status, overall
from diffgen.gate.values import Behaviour, GateValues, KnownBehaviour, Replay, SearchState, Steadiness
from diffgen.runs.schema import class_name, fields, flag, number, one_of, or_none, rows, text, whole

SCHEMA_VERSION = 1
_SAID_OF_MODELS = ("unsteady", "batched")  # sentences about models, in a Steadiness
_SENTENCES = ("smells", "faint_smells", "base_smells", "silences")
_PAIRS = ("labels_alone", "outputs", "left_out")  # of base and candidate
_KINDS = {each.name: each.kind for each in CRITERIA if each.kind is not None}
_VARIATION_DROP = "variation_drop"  # stands beside how many variations were made


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
        base, candidate: "name" and "sha256" of each.
        store: its folder, or None.
        class_names: K names.
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
            **{name: list(getattr(values, name)) for name in (*_SENTENCES, *_PAIRS)},
            "classes": None if values.classes is None else list(values.classes),
            "new_behaviours": len(values.new),
            "known_behaviours": len(values.behaviours) - len(values.new),
            "new_faults": len(values.new_faults) if values.jury else None,
            "random_images": {"drawn": values.drawn, "accepted": values.accepted},
            "variations": {"drawn": values.varied, "accuracy_drop": _entry(values[_VARIATION_DROP])},
            **{name: _entry(values[name]) for name in _KINDS if name != _VARIATION_DROP},
            "replay": {**asdict(values.replay), "agree": values.replay.agree},
        },
        "measured": [
            {**asdict(each), "title": each.title} for each in table(values, [each.name for each in conditions])
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


def _entry(measurement: Measurement | None) -> dict[str, Any] | None:
    return None if measurement is None else measurement.as_dict()


_SHARE = number(0, 1)
_STATUS = one_of([each.value for each in Status])
_NAMES = rows(class_name, least=2, most=2)
_check_record = fields(
    {
        "status": _STATUS,
        "conditions": rows(
            fields({"name": one_of(TITLES), "status": _STATUS, "limit": text, "sentence": text, "title": text})
        ),
        "values": fields(
            {
                "search": fields({"queries": whole(), "problem": text}),
                "steadiness": fields({"noise": _SHARE, "margin": _SHARE, **dict.fromkeys(_SAID_OF_MODELS, rows(text))}),
                **dict.fromkeys(_SENTENCES, rows(text)),
                **dict.fromkeys(("labels_alone", "left_out"), rows(flag, least=2, most=2)),
                "outputs": rows(text, least=2, most=2),
                "classes": or_none(rows(whole(), least=2, most=2)),
                "new_faults": or_none(whole()),
                "random_images": fields({"drawn": whole(), "accepted": whole()}),
                "variations": fields({"drawn": whole(), "accuracy_drop": or_none(_KINDS[_VARIATION_DROP].check)}),
                **{name: or_none(kind.check) for name, kind in _KINDS.items() if name != _VARIATION_DROP},
                "replay": fields({name: whole() for name in ("pictures", "still", "changed")}),
            },
        ),
        "behaviours": rows(
            fields(
                {
                    "said": rows(whole(), least=2, most=2),
                    "names": _NAMES,
                    **dict.fromkeys(("cell", "pictures", "known_pictures", "faults"), whole()),
                    "new": flag,
                    "shift": _SHARE,
                    "found_by": text,
                    "triggers": rows(whole(-1)),
                }
            )
        ),
        "known": rows(fields({"stored": text, "names": _NAMES, "pictures": whole(), "shift": _SHARE})),
    }
)


def read_values(record: Mapping[str, Any]) -> GateValues:
    """What :func:`make_record` was given as values; the record may have been changed by somebody since.

    Raises:
        KeyError, TypeError, ValueError: the record is damaged.
    """
    _check_record(record)
    values = record["values"]
    entries = {**values, _VARIATION_DROP: values["variations"]["accuracy_drop"]}
    steadiness, replay = values["steadiness"], values["replay"]
    pairs_and_sentences: dict[str, Any] = {name: tuple(values[name]) for name in (*_SENTENCES, *_PAIRS)}
    return GateValues(
        measured={name: None if entries[name] is None else kind.read(entries[name]) for name, kind in _KINDS.items()},
        **values["random_images"],
        varied=values["variations"]["drawn"],
        jury=values["new_faults"] is not None,
        replay=Replay(replay["pictures"], replay["still"], replay["changed"]),
        search=SearchState(**values["search"]),
        steadiness=Steadiness(**steadiness | {name: tuple(steadiness[name]) for name in _SAID_OF_MODELS}),
        **pairs_and_sentences,
        classes=None if values["classes"] is None else (values["classes"][0], values["classes"][1]),
        behaviours=tuple(
            Behaviour(
                said=(each["said"][0], each["said"][1]),
                cell=each["cell"],
                count=each["pictures"],
                known=each["known_pictures"],
                shift=each["shift"],
                triggers=tuple(each["triggers"]),
                replayed=each["found_by"] == "replay",
                faults=each["faults"],
            )
            for each in record["behaviours"]
        ),
        known=tuple(KnownBehaviour(**{**each, "names": tuple(each["names"])}) for each in record["known"]),
    )


def read_conditions(record: Mapping[str, Any]) -> tuple[Condition, ...]:
    """What :func:`make_record` was given as conditions; raises as :func:`read_values`."""
    _check_record(record)
    conditions = tuple(
        Condition(each["name"], Status(each["status"]), each["limit"], each["sentence"])
        for each in record["conditions"]
    )
    if overall(conditions).value != record["status"]:
        raise ValueError(f"its status is {record['status']}, but that of its conditions {overall(conditions).value}")
    return conditions
