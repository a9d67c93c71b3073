"""What runs there are in a folder, and how one of them is deleted; for those who look rather than type."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffgen.errors import UserError
from diffgen.runs.creation import OWN, remove
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import LOCK_NAME, RunLock, check_free

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
        manifest, results = folder.manifest, folder.results() if folder.file("results.json").is_file() else {}
        with folder.reading():
            return RunLine(
                path=path,
                status=_status(folder),
                created=str(manifest["created"]),
                models=tuple(str(manifest["files"][role]["name"]) for role in sorted(manifest["files"])),
                data=str(manifest["data"]["source"]),
                triggers=folder.trigger_count,
                is_check="check" in manifest,
                check=str(results["check"]["status"]) if "check" in results else "",
                figures={name: results[name] for name in _FIGURES if results.get(name) is not None},
                warnings=_warnings(manifest, results),
            )
    except (UserError, OSError) as error:
        return RunLine(path, "damaged", problem=str(error))


def run_settings(run: str | Path) -> dict[str, Any]:
    """The settings that a run was made with: full name, as in ``search.population`` -> value.

    Raises:
        UserError: there is no run, or its settings are damaged.
    """
    return dict(_flat(RunFolder.open(run).config(), ""))


def _flat(values: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


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


def _warnings(manifest: Mapping[str, Any], results: Mapping[str, Any]) -> tuple[str, ...]:
    """What a run's user was warned of; of a run of an early version, what its results say of it."""
    found = manifest.get("warnings", [*results.get("preflight", {}).get("warnings", ()), *results.get("warnings", ())])
    return tuple(map(str, found))


def _status(folder: RunFolder) -> str:
    status = str(folder.manifest.get("status", "done"))
    if status != "running":
        return status
    try:
        check_free(folder.path)
    except UserError:
        return "running"
    return "broken off"
