"""The verdict of a check that was made, to be looked at."""

from __future__ import annotations

from pathlib import Path

from diffgen.errors import UserError
from diffgen.report.data import GateView
from diffgen.report.reading import read_gate
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import UnfinishedCheck, read_results


def verdict(run: str | Path) -> GateView:
    """What a check came to: its conditions, and the behaviours that it met.

    Raises:
        UserError: the run is no check, has not come to a verdict, or is damaged.
    """
    folder = RunFolder.open(run)
    results = read_results(folder)
    with folder.reading():
        if results.check is None:
            raise UserError(f"The run {folder.path} is no check; start one with 'diffgen check'.")
        if isinstance(results, UnfinishedCheck):
            return read_gate(folder, results.check)
        return read_gate(folder, results.check, results.faults, results.no_jury)
