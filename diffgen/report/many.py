"""What the page says of three models or more: one row a model, and a table of which two differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diffgen.report.data import ReportData
from diffgen.report.matrix import HEAT_STEPS
from diffgen.report.wording import figure, number, percent
from diffgen.tasks.classification import role_name
from diffgen.tasks.many import sides
from diffgen.wording import count_of

#: Letters of the models that say the same, and what they say by name.
Side = tuple[tuple[str, ...], str]


@dataclass(frozen=True)
class ModelRow:
    """One model: how good it is on the real images, and how often it stands alone on what was found; as text."""

    role: str
    name: str
    figures: tuple[str, ...]


@dataclass(frozen=True)
class PairCell:
    """On how many pictures two models differ: as text, how dark (0 to ``HEAT_STEPS``), and in words."""

    text: str
    heat: int
    title: str


@dataclass(frozen=True)
class PairTable:
    """Which two models differ; row and column by row and column, with None on the diagonal."""

    title: str
    rows: tuple[tuple[str, tuple[PairCell | None, ...]], ...]
    links: bool


@dataclass(frozen=True)
class ManyView:
    """The part of the page that is of the models one by one and two by two.

    Attributes:
        columns: heads of the columns after the name.
        rows: one of each model.
        tables: which two differ.
        majority: what the majority is worth as a second opinion, one sentence, or empty.
        alone_wrong: on how many pictures one model alone is wrong, whichever it is.
    """

    columns: tuple[str, ...]
    rows: tuple[ModelRow, ...]
    tables: tuple[PairTable, ...]
    majority: str
    alone_wrong: int


def make_many(data: ReportData) -> ManyView | None:
    """What the page says of three models or more; None of two."""
    found = data.results.many
    if found is None:
        return None
    juried, accuracy = data.results.faults is not None, data.preflight.accuracy
    errors, times = data.preflight.calibration_error, data.results.milliseconds
    columns = [*(["accuracy"] if accuracy else []), *(["ECE"] if errors else []), *(["ms an image"] if times else [])]
    columns += ["stands alone", "ways", *(["alone and wrong", "alone and right"] if juried else [])]
    rows = []
    for index, name in enumerate(data.model_names):
        of = found.alone[role_name(index)]
        figures = [percent(accuracy[index], 2)] if accuracy else []
        figures += [percent(errors[index], 2)] if errors else []
        figures += [_time(times[index])] if times else []
        figures += [number(of.pictures), number(of.behaviours)]
        figures += [number(of.wrong), number(of.right)] if juried else []
        rows.append(ModelRow(role_name(index), name, tuple(figures)))
    noun = f"{data.noun}s"
    tables = [_table(f"Of {count_of(data.headline_count, f'valid {data.noun}')}", found.found, noun, links=True)]
    tables.append(
        _table(
            f"Of {count_of(data.results.real_disagreements, 'real image')} with a disagreement",
            found.real,
            "real images",
            links=False,
        )
    )
    return ManyView(tuple(columns), tuple(rows), tuple(tables), _majority(data) if juried else "", _alone_wrong(data))


def _time(milliseconds: float | None) -> str:
    return "-" if milliseconds is None else figure(milliseconds)


def _alone_wrong(data: ReportData) -> int:
    return sum(counts["pictures"] for verdict, counts in (data.results.faults or {}).items() if len(verdict) == 1)


def _majority(data: ReportData) -> str:
    found = data.results.many
    assert found is not None
    if not found.majority_recognised:
        return ""
    share = percent(found.majority_right / found.majority_recognised)
    return (
        f"More than half of the models say the same of {count_of(found.majority, 'picture')}. Of the "
        f"{number(found.majority_recognised)} of these that the jury recognises it says what the majority says on "
        f"{number(found.majority_right)} ({share})."
    )


def _table(title: str, counts: Sequence[Sequence[int]], noun: str, *, links: bool) -> PairTable:
    most = max((count for row in counts for count in row), default=0)
    rows = []
    for one, row in enumerate(counts):
        cells = [
            None
            if one == other
            else PairCell(
                number(count),
                round(HEAT_STEPS * count / most) if most else 0,
                f"{role_name(one)} and {role_name(other)} differ on {number(count)} {noun}",
            )
            for other, count in enumerate(row)
        ]
        rows.append((role_name(one), tuple(cells)))
    return PairTable(title, tuple(rows), links)


def named_sides(labels: Sequence[int], names: Sequence[str]) -> tuple[Side, ...]:
    """Who says what, by groups, of three models or more; nothing of two."""
    if len(labels) == 2:
        return ()
    return tuple((tuple(map(role_name, models)), names[label]) for label, models in sides(labels))
