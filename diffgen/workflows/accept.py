"""Puts what a check found into the store, so that the next check knows it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from diffgen.errors import UserError
from diffgen.runs.folder import RunFolder
from diffgen.runs.store import StoredBehaviour, add_to_store


@dataclass(frozen=True)
class AcceptResult:
    """What was put into a store.

    Attributes:
        store: the folder.
        added: behaviours that are new in it.
        known: behaviours of the run that the store knew already.
    """

    store: str
    added: int
    known: int

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def accept(run: str | Path, store: str | Path) -> AcceptResult:
    """Record the new behaviours of a finished check as known.

    Args:
        run: the run folder of the check.
        store: the folder to add to; it is made when there is none.

    Raises:
        UserError: the run is no check, its search did not come to its end, or the store cannot be used.
        RunError: the store cannot be written.
    """
    folder = RunFolder.open(run)
    record = folder.results().get("check")
    if record is None:
        raise UserError(f"The run {folder.path} is no check; accept what 'diffgen check' found.")
    if record["values"]["search"]["problem"]:
        raise UserError(
            f"The search of the check {folder.path} did not come to its end, so what it found is not all; run it again."
        )
    behaviours = record["behaviours"]
    new = [each for each in behaviours if each["new"]]
    if not new:
        return AcceptResult(str(store), 0, len(behaviours))
    images = folder.read_arrays("check")["images"]
    about = {
        "accepted": datetime.now(UTC).date().isoformat(),
        "run": folder.path.name,
        "base": record["base"],
        "candidate": record["candidate"],
    }
    stored, start = [], 0
    for each in behaviours:
        rows = slice(start, start + len(each["triggers"]))
        start = rows.stop
        if each["new"]:
            said, names = each["said"], each["names"]
            stored.append(StoredBehaviour((said[0], said[1]), (names[0], names[1]), images[rows], about))
    return AcceptResult(str(store), add_to_store(Path(store), stored), len(behaviours) - len(new))
