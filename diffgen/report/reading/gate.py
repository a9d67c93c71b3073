"""Reads the verdict of a check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffgen.report.data import ConditionView, GateBehaviour, GateView, Picture
from diffgen.report.wording import Faults, nobody_named, verdict_sentences
from diffgen.runs.folder import RunFolder


def read_gate(
    folder: RunFolder, record: Mapping[str, Any], faults: Faults | None = None, no_jury: str = ""
) -> GateView:
    """The verdict of a check.

    Args:
        folder: of the run.
        record: what results.json says under "check".
        faults, no_jury: and of who is wrong, or why nobody says so.
    """
    rows = _rows(record)
    failed = {each.name for each in rows if each.status == "FAIL"}
    return GateView(
        run=folder.path.name,
        status=record["status"],
        base=record["base"]["name"],
        candidate=record["candidate"]["name"],
        data_name=record["data"],
        rows=rows,
        behaviours=_behaviours(folder, record["behaviours"]),
        fails_on_behaviours="new_behaviours" in failed,
        fails_on_faults="new_faults" in failed,
        store=record["store"] or "",
        created=folder.manifest["created"],
        version=folder.manifest["version"],
        seconds=record["seconds"],
        verdicts=verdict_sentences(faults, 2) or tuple(filter(None, [nobody_named(no_jury)])),
    )


def _rows(record: Mapping[str, Any]) -> tuple[ConditionView, ...]:
    """The values that were measured, each with the condition on it, then the conditions without a value."""
    conditions = {each["name"]: each for each in record["conditions"]}
    values = {each["name"]: each for each in record["measured"]}
    return tuple(
        ConditionView(
            name=name,
            title=_title(values.get(name, {}) | conditions.get(name, {})),
            status=conditions[name]["status"] if name in conditions else "",
            value=values[name]["value"] if name in values else "not measured",
            interval=values[name]["interval"] if name in values else "",
            limit=conditions[name]["limit"] if name in conditions else "",
            sentence=conditions[name]["sentence"] if name in conditions else "",
        )
        for name in dict.fromkeys([*values, *conditions])
    )


def _title(row: Mapping[str, Any]) -> str:
    """Of a value, or of a condition on what was not measured; earlier versions gave the latter none."""
    return str(row.get("title") or row["name"].replace("_", " "))


def _behaviours(folder: RunFolder, entries: list[dict[str, Any]]) -> tuple[GateBehaviour, ...]:
    stored: Mapping[str, Any] = folder.read_arrays("check") if entries else {"images": (), "probabilities": ()}
    if len(stored["images"]) != sum(len(each["triggers"]) for each in entries):
        raise ValueError("its pictures are not as many as it says")
    # as many as there are behaviours, of which a page shows few: each is made whole when it is shown
    kept = stored.get("classes", [None] * len(stored["images"]))
    pictures = iter(zip(stored["images"], stored["probabilities"], kept, strict=True))
    made = []
    for each in entries:
        a, b = each["said"]
        shown = []
        for number in each["triggers"]:
            image, probabilities, own = next(pictures)
            shown.append(
                Picture(image=image, labels=(a, b), probabilities=probabilities, identifier=number, classes=own)
            )
        made.append(
            GateBehaviour(
                said=(a, b),
                names=(each["names"][0], each["names"][1]),
                cell=each["cell"],
                count=each["pictures"],
                new=each["new"],
                shift=each["shift"],
                replayed=each["found_by"] == "replay",
                pictures=tuple(shown),
                faults=each.get("faults", 0),
            )
        )
    return tuple(made)
