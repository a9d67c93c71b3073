"""The outcome of a check: its values, its conditions and its status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from diffgen.gate.record import read_conditions, read_values
from diffgen.gate.rules import EXIT_CODES, Condition, Status
from diffgen.gate.values import GateValues
from diffgen.runs.figures import Preflight
from diffgen.wording import count_of

_WORST = 5


@dataclass(frozen=True)
class CheckResult:
    """How a check came out.

    Attributes:
        run: its run folder, with results.json, junit.xml, summary.md and report.html.
        status: the worst of the conditions.
        conditions: each with its status.
        values: what was measured.
        worst: the new behaviours in which the candidate is wrong, then those with the largest probability shift, one
            sentence each.
        go_on: what goes on with a check that broke off, or empty: a command, or a call in Python where it was given
            objects.
        real: what was seen on the real images, or None: it broke off before.
        milliseconds: that one image takes each model; None where a server answers, or where it broke off.
        store: the folder of the behaviours that were accepted before, as it was named, or None.
        cause: why the two differ, in a line, or empty: nobody looked.
    """

    run: str
    status: Status
    conditions: tuple[Condition, ...]
    values: GateValues
    worst: tuple[str, ...] = ()
    go_on: str = ""
    real: Preflight | None = None
    milliseconds: tuple[float | None, ...] | None = field(default=None, compare=False)
    store: str | None = None
    cause: str = ""

    @classmethod
    def from_record(cls, run: Path, record: Mapping[str, Any], go_on: str = "") -> CheckResult:
        """What results.json says under "check". KeyError, TypeError, ValueError if it is damaged."""
        conditions, values = read_conditions(record), read_values(record)
        worst = tuple(
            f"base says {each['names'][0]}, candidate says {each['names'][1]} (cell {each['cell']}, "
            f"{count_of(each['pictures'], 'picture')}, {_wrong(each['faults'])}"
            f"probability shift {each['shift']:.2f})"
            for each in [each for each in record["behaviours"] if each["new"]][:_WORST]
        )
        status, store = Status(record["status"]), record.get("store")
        return cls(str(run), status, conditions, values, worst, go_on, store=None if store is None else str(store))

    @property
    def exit_code(self) -> int:
        """0 for PASS and WARN, 1 for FAIL, 3 for ERROR."""
        return EXIT_CODES[self.status]

    @property
    def report(self) -> Path:
        """report.html, or summary.md, where the disk had no room for more."""
        page = Path(self.run) / "report.html"
        return page if page.exists() else page.with_name("summary.md")

    def as_dict(self) -> dict[str, Any]:
        """What results.json says of it, shortened to status and conditions; JSON values."""
        return {
            "run": self.run,
            "status": self.status.value,
            "conditions": [asdict(each) for each in self.conditions],
            "new_behaviours": len(self.values.new),
            "known_behaviours": len(self.values.behaviours) - len(self.values.new),
            **({"cause": self.cause} if self.cause else {}),
        }


def _wrong(faults: int) -> str:
    return f"candidate wrong on {faults:,}, " if faults else ""
