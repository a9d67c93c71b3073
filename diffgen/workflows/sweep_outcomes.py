"""What came of the comparisons of a sweep: one table, and a page of it."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from diffgen.errors import UserError
from diffgen.report.html import asset, make_environment
from diffgen.runs.files import write_text
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import RunResults, read_finished
from diffgen.workflows.sweep_plan import Cell


@dataclass(frozen=True)
class Outcome:
    """What came of one comparison; figures are None where it did not come to its end.

    Attributes:
        run: its folder.
        status: "done", "failed", "begun": it was broken off, and goes on from its last checkpoint the next time; or
            "open": it was not begun, or its search was not.
        why: of one that failed, a sentence.
        warnings: what its user is to know of it, one sentence each.
    """

    run: str
    pair: str
    technique: str
    budget: str
    seed: int
    status: str
    queries: int | None = None
    seconds: float | None = None
    triggers: int | None = None
    valid_triggers: int | None = None
    distinct_valid_triggers: int | None = None
    behaviours: int | None = None
    behaviours_of_agreement: int | None = None
    recognised_behaviours: int | None = None
    label_pairs: int | None = None
    why: str = ""
    warnings: tuple[str, ...] = ()


_FIGURES = tuple(each.name for each in fields(Outcome) if each.name not in ("run", "status", "why", "warnings"))[4:]


def outcome_of(cell: Cell, run: Path, failure: str | None = None) -> Outcome:
    """What came of a comparison, as its run folder says."""
    known = (str(run), cell.pair, cell.technique, cell.budget, cell.seed)
    results, warned = results_of(run), warnings_of(run)
    if results is not None:
        return Outcome(*known, "done", **{name: getattr(results, name) for name in _FIGURES}, warnings=warned)
    left = "begun" if (run / "config.toml").is_file() else "open"
    return Outcome(*known, left if failure is None else "failed", why=failure or "", warnings=warned)


def results_of(run: Path) -> RunResults | None:
    """The results of a run; None: it did not come to its end, or cannot be read."""
    try:
        folder = RunFolder.open(run)
        results = read_finished(folder)
    except UserError:
        return None
    return results if folder.manifest.get("status") == "done" else None


def warnings_of(run: Path) -> tuple[str, ...]:
    """What the user of a run was warned of, as its manifest keeps it, whatever machine it ran on."""
    try:
        folder = RunFolder.open(run)
        folder.check_description()
    except UserError:
        return ()
    return tuple(folder.manifest.get("warnings", ()))


def write_table(outcomes: Sequence[Outcome], folder: Path) -> Path:
    """Write table.csv and report.html of a sweep; gives the path of the page. RunError if the disk is full."""
    names = [each.name for each in fields(Outcome)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for each in outcomes:
        writer.writerow([_as_text(getattr(each, name)) for name in names])
    write_text(folder / "table.csv", text.getvalue())
    environment = make_environment()
    page = environment.get_template("sweep.html.j2").render(
        outcomes=outcomes,
        medians=medians(outcomes),
        warned=warned(outcomes),
        figures=_FIGURES,
        runs={each.run: Path(each.run).relative_to(folder).as_posix() for each in outcomes},
        style=asset(environment, "style.css"),
    )
    write_text(folder / "report.html", page)
    return folder / "report.html"


def _as_text(value: Any) -> Any:
    """As the table has it: figures that are not known stay empty, sentences follow each other."""
    return "" if value is None else " ".join(value) if isinstance(value, tuple) else value


def warned(outcomes: Sequence[Outcome]) -> list[tuple[str, list[Outcome]]]:
    """The warnings, and which comparisons of one pair of models each is about."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for each in outcomes:
        for sentence in each.warnings:
            groups.setdefault((each.pair, sentence), []).append(each)
    return [(sentence, group) for (_, sentence), group in groups.items()]


def medians(outcomes: Sequence[Outcome]) -> list[tuple[tuple[str, str, str], int, dict[str, float | None]]]:
    """Over the seeds: pair, technique and budget, how many seeds are done, and the median of each figure."""
    groups: dict[tuple[str, str, str], list[Outcome]] = {}
    for each in outcomes:
        groups.setdefault((each.pair, each.technique, each.budget), []).append(each)
    found = []
    for key, group in groups.items():
        done = [each for each in group if each.status == "done"]
        values = {name: [value for each in done if (value := getattr(each, name)) is not None] for name in _FIGURES}
        found.append((key, len(done), {name: statistics.median(own) if own else None for name, own in values.items()}))
    return found
