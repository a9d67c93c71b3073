"""Entry point of ``diffgen check --accept``: put what a check found into the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from diffgen.errors import UserError
from diffgen.gate.conditions import TITLES
from diffgen.gate.ratchet import Acceptance, Level, held_to
from diffgen.gate.record import read_conditions, read_values
from diffgen.gate.rules import Status
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import read_results
from diffgen.runs.store import Store, StoredBehaviour, add_to_store, read_store, unreadable_values
from diffgen.types import Result


@dataclass(frozen=True)
class AcceptResult(Result):
    """What was put into a store.

    Attributes:
        store: the folder.
        added: behaviours that are new in it.
        known: behaviours of the run that the store knew already.
        failed: conditions that the check had failed, or that could not be measured, for people.
        held_to: what later checks against the store are held to, whatever their limits: title of a value -> text.
    """

    store: str
    added: int
    known: int
    failed: tuple[str, ...] = ()
    held_to: Mapping[str, str] = field(default_factory=dict)


def accept(run: str | Path, store: str | Path) -> AcceptResult:
    """Record the new behaviours of a finished check as known, and what it measured as accepted.

    Args:
        run: the run folder of the check; what it says is checked as if a stranger had written it.
        store: the folder to add to; it is made when there is none.

    Raises:
        UserError: the run is no check, its search did not come to its end, it is damaged, or the store cannot be used.
        RunError: the store cannot be written.
    """
    folder = RunFolder.open(run)
    record = read_results(folder).check
    if record is None:
        raise UserError(f"The run {folder.path} is no check; accept what 'diffgen check' found.")
    try:
        values = read_values(record)
        broken = [each.name for each in read_conditions(record) if each.status in (Status.FAIL, Status.ERROR)]
        if values.search.problem:
            raise UserError(
                f"The search of the check {folder.path} was interrupted, so its findings are incomplete; run "
                "the check again."
            )
        about = {
            "accepted": datetime.now(UTC).date().isoformat(),
            "run": folder.path.name,
            "base": record["base"],
            "candidate": record["candidate"],
        }
        stored, levels = _new_behaviours(folder, record, about)
        levels |= {each.stored: Level(each.pictures, each.shift) for each in values.known}
        accepted = Acceptance.of(values, levels)
        Acceptance.read(accepted.as_dict())
        _, channels, height, width = folder.read_arrays("report")["samples"].shape
        if channels not in (1, 3):
            raise ValueError(f"its pictures have {channels} channels")
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"The check {folder.path} cannot be read ({error}); the run folder is damaged.") from error
    held = held_to((*acceptances(read_store(Path(store))), accepted))
    added = add_to_store(Path(store), stored, {**about, **accepted.as_dict()}, image_shape=(channels, height, width))
    titled = {TITLES[name]: text for name, text in held.items()}
    failed = tuple(TITLES[name] for name in broken)
    return AcceptResult(str(store), added, len(values.behaviours) - added, failed, titled)


def _new_behaviours(
    folder: RunFolder, record: Mapping[str, Any], about: dict[str, Any]
) -> tuple[list[StoredBehaviour], dict[str, Level]]:
    """What the store is to know, and how severe it is."""
    if not any(each["new"] for each in record["behaviours"]):
        return [], {}
    arrays = folder.read_arrays("check")
    images, probabilities = arrays["images"], arrays["probabilities"]
    shifts = np.abs(probabilities[:, 0] - probabilities[:, 1]).max(axis=1)
    if not len(images) == len(shifts) == sum(len(each["triggers"]) for each in record["behaviours"]):
        raise ValueError("its pictures are not as many as it says")
    stored, levels, start = [], {}, 0
    for each in record["behaviours"]:
        rows = slice(start, start + len(each["triggers"]))
        start = rows.stop
        if each["new"]:
            (a, b), names = each["said"], each["names"]
            behaviour = StoredBehaviour((a, b), (names[0], names[1]), images[rows], about)
            stored.append(behaviour)
            levels[behaviour.name] = Level(each["pictures"], float(shifts[rows].max()))
    return stored, levels


def acceptances(store: Store) -> tuple[Acceptance, ...]:
    """What was measured by the checks that a store has accepted. UserError if a file is damaged."""
    found = []
    for file, entry in store.accepted:
        try:
            found.append(Acceptance.read(entry))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise unreadable_values(file, error) from error
    return tuple(found)
