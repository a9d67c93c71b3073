"""The verdict of a check that was made: to be looked at, and told again, though only of the same files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diffgen.comparison.opened_run import OpenedRun
from diffgen.comparison.probable_cause import cause_of
from diffgen.config import is_address, replace
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.gate.result import CheckResult
from diffgen.models.loading import file_digest
from diffgen.report.data import GateView
from diffgen.report.from_run import write_report
from diffgen.report.reading import read_gate
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import RunResults, UnfinishedCheck, read_results

_REPORTS = ("junit.xml", "summary.md", "report.html")  # written after results.json


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


def verdict_of_done(folder: RunFolder) -> CheckResult | None:
    """Of a check that came to its end; None for any other."""
    if folder.manifest.get("status") != "done":
        return None
    try:
        results = read_results(folder)
        if results.check is None or not isinstance(results, RunResults):
            return None
        result = CheckResult.from_record(folder.path, results.check)
        return replace(result, real=results.preflight, milliseconds=results.milliseconds, cause=cause_of(folder))
    except (UserError, KeyError, TypeError, ValueError):
        return None  # killed before the verdict was written, or damaged


def warn_of_other_store(done: CheckResult, store: str | Path | None, progress: Progress) -> None:
    """Say of a verdict that is told again against which store it was, where another one is named now."""
    if store is None or (done.store is not None and Path(store).resolve() == Path(done.store).resolve()):
        return
    held = "no store" if done.store is None else f"the store {done.store}"
    progress.warn(
        f"The check {done.run} is done, and was held against {held}; start another check to hold the candidate against "
        f"{store}."
    )


def check_same_files(folder: RunFolder, given: Sequence[Any], *, data: Any, progress: Progress) -> None:
    """See that a verdict is one on the files that are there now; objects and servers cannot be compared.

    Args:
        given: base and candidate as they are named now, each None: where it was.
        data: the real images as they are named now, or None: where they were.
        progress: told what was not compared, and how far reading the images is.

    Raises:
        UserError: a model's file or the data are gone, or have changed; or the folder is damaged.
    """
    folder.check_description()
    files = folder.manifest["files"]
    if len(files) != len(given):
        raise UserError(
            f"The run folder {folder.path} is damaged: a check has two models, and its manifest names {len(files)}."
        )
    for role, model in zip(sorted(files), given, strict=True):
        place = files[role]["path"] if model is None else model
        if is_address(place):
            progress.warn(f"Whether {place} still serves the model that was checked was not looked at.")
        elif isinstance(place, str | os.PathLike) and file_digest(place) != files[role]["sha256"]:
            raise UserError(
                f"The file {os.fspath(place)} is not what the check {folder.path} was made with, so its verdict says "
                "nothing of that file; check it anew, without --resume."
            )
    if data is not None or folder.manifest["data"]["path"] is not None:
        OpenedRun(folder, "cpu").data(data, purpose="read its verdict", progress=progress)


def redraw(folder: RunFolder, progress: Progress) -> None:
    """Draw the reports of a check that is done, where it was killed before it had drawn them all.

    Those that are there may then be of an earlier verdict: that the check had broken off.
    """
    results = folder.file("results.json").stat().st_mtime_ns
    if all(each.is_file() and each.stat().st_mtime_ns >= results for each in map(folder.file, _REPORTS)):
        return
    with folder.reading(), progress.stage("Drawing the report"):
        write_report(folder)
