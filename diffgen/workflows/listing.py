"""What runs there are in a folder; how the report of one is drawn again, and how one is deleted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffgen.config.layers import flattened
from diffgen.errors import UserError
from diffgen.report.from_run import write_report
from diffgen.runs.creation import OWN, remove
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import LOCK_NAME, RunLock, check_free
from diffgen.runs.results import RunResults, read_results

_FIGURES = (
    "queries",
    "triggers",
    "valid_triggers",
    "distinct_valid_triggers",
    "recognised_distinct_triggers",
    "behaviours",
    "recognised_behaviours",
    "label_pairs",
    "seconds",
)


@dataclass(frozen=True)
class RunLine:
    """One run in a list.

    Attributes:
        path: its folder.
        status: "running", "done", "interrupted", "broken off" where nobody works in it any more, or "damaged".
        created: ISO 8601, or empty.
        models: what they are called, A first.
        data: as the user wrote it.
        triggers: written so far.
        check: of a check its status (PASS, WARN, FAIL, ERROR), or empty.
        is_check: it asks whether a candidate may replace a base.
        figures: of a run that came to its end, by the names of results.json; empty before.
        problem: why it cannot be read, or empty.
        warnings: what its user was warned of, one sentence each.
    """

    path: Path
    status: str
    created: str = ""
    models: tuple[str, ...] = ()
    data: str = ""
    triggers: int = 0
    check: str = ""
    is_check: bool = False
    figures: Mapping[str, float] | None = None
    problem: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of its folder."""
        return self.path.name


def list_runs(place: str | Path) -> tuple[RunLine, ...]:
    """The runs that lie directly in a folder, the newest first; one that is damaged is listed with the reason.

    Raises:
        UserError: the folder cannot be read.
    """
    try:
        # by os, which answers False where one folder may not be looked into
        folders = [each for each in Path(place).iterdir() if os.path.isfile(each / "manifest.json")]
    except OSError as error:
        raise UserError(f"The folder {place} cannot be read ({error.strerror}); name another.") from error
    return tuple(sorted(map(describe_run, folders), key=lambda line: (line.created, line.name), reverse=True))


def describe_run(run: str | Path) -> RunLine:
    """One run, as :func:`list_runs` has it; nothing is raised for one that is damaged."""
    path = Path(run)
    try:
        folder = RunFolder.open(path)
        folder.check_description()
        manifest = folder.manifest
        results = read_results(folder) if folder.file("results.json").is_file() else None
        with folder.reading():
            return RunLine(
                path=path,
                status=_status(folder),
                created=manifest["created"],
                models=folder.model_names,
                data=manifest["data"]["source"],
                triggers=folder.trigger_count,
                is_check="check" in manifest,
                check="" if results is None or results.check is None else results.check["status"],
                figures=_figures(results) if isinstance(results, RunResults) else {},
                warnings=tuple(manifest.get("warnings", ())),
            )
    except (UserError, OSError) as error:
        return RunLine(path, "damaged", problem=str(error))


def run_settings(run: str | Path) -> dict[str, Any]:
    """The settings that a run was made with: full name, as in ``search.population`` -> value.

    Raises:
        UserError: there is no run, or its settings are damaged.
    """
    return dict(flattened(RunFolder.open(run).config()))


def delete_run(run: str | Path) -> None:
    """Remove what a run made in its folder, and the folder where nothing else is in it.

    Raises:
        UserError: there is no run, it is a link to one, or a process works in it.
        RunError: a file cannot be removed.
    """
    if (link := Path(run)).is_symlink():
        raise UserError(f"{link} is a link to a run; remove the link, or delete the run itself at {link.resolve()}.")
    folder = RunFolder.open(run)
    with RunLock(folder.path):
        remove(folder.path, OWN)
    if not any(each.name != LOCK_NAME for each in folder.path.iterdir()):
        folder.path.rmdir()


def _figures(results: RunResults) -> dict[str, float]:
    values = {name: getattr(results, name) for name in _FIGURES}
    return {name: value for name, value in values.items() if value is not None}


def _status(folder: RunFolder) -> str:
    status = str(folder.manifest.get("status", "done"))
    if status != "running":
        return status
    try:
        check_free(folder.path)
    except UserError:
        return "running"
    return "broken off"


def draw_report(run: str | Path) -> Path:
    """Draw report.html, summary.md and images/ of a run again; returns the path of report.html.

    Raises:
        UserError: there is no finished run at that place.
    """
    folder = RunFolder.open(run)
    with folder.reading():
        return write_report(folder)
