"""Who says what, in tables: the disagreement matrix, the most frequent label pairs, models one and two at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diffgen.report.data import ReportData
from diffgen.report.wording import figure, number, percent
from diffgen.tasks.classification import LabelPairs, role_name, sides
from diffgen.types import Int64Array
from diffgen.wording import count_of

#: With at most this many classes all of them are drawn, else only those that occur.
ALL_CLASSES = 12
#: Most rows and columns; the rest goes into one row or column "others", so that all sums stay complete.
MAX_CLASSES = 15
#: Steps of the colour scale; the style sheet has one class for each.
HEAT_STEPS = 8
#: Most pairs on the page; results.json has all.
MOST_PAIRS = 300
#: Letters of the models that say the same, and what they say by name.
Side = tuple[tuple[str, ...], str]


# -- two models -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """Rows or columns: one tuple of class numbers each, and the name written on it."""

    members: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Cell:
    """One field of the table. ``pair`` is "a-b" where the field stands for exactly one label pair with pictures."""

    text: str
    heat: int
    title: str
    pair: str
    diagonal: bool


@dataclass(frozen=True)
class MatrixView:
    """One table; rows are what A says, columns what B says."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    total: int
    pairs: int


def axes(matrices: tuple[Int64Array, ...], names: tuple[str, ...]) -> tuple[Axis, Axis]:
    """Rows and columns that suit all ``matrices`` (int64 (K, K)), so that they can be compared side by side."""
    together = np.sum(matrices, axis=0)
    return _axis(together.sum(axis=1), names), _axis(together.sum(axis=0), names)


def _axis(totals: Int64Array, names: tuple[str, ...]) -> Axis:
    classes = len(names)
    if classes <= ALL_CLASSES:
        chosen = list(range(classes))
        others: list[int] = []
    else:
        occurring = [int(index) for index in np.argsort(-totals, kind="stable") if totals[index] > 0]
        keep = len(occurring) if len(occurring) <= MAX_CLASSES else MAX_CLASSES - 1
        chosen, others = sorted(occurring[:keep]), sorted(occurring[keep:])
    members: list[tuple[int, ...]] = [(index,) for index in chosen]
    labels = [names[index] for index in chosen]
    if others:
        members.append(tuple(others))
        labels.append(f"{len(others)} others")
    return Axis(tuple(members), tuple(labels))


def matrix_view(matrix: Int64Array, rows: Axis, columns: Axis, what: str) -> MatrixView:
    """The table of ``matrix`` (int64 (K, K)); ``what`` is the noun of its counts, in the plural."""
    total = int(matrix.sum())
    counts = np.array([[matrix[np.ix_(a, b)].sum() for b in columns.members] for a in rows.members], dtype=np.int64)
    highest = int(counts.max()) if counts.size else 0
    table = []
    for i, a in enumerate(rows.members):
        cells = []
        for j, b in enumerate(columns.members):
            count = int(counts[i, j])
            single = len(a) == len(b) == 1
            cells.append(
                Cell(
                    text=_short(count) if count else "",
                    heat=_heat(count, highest),
                    title=f"A says {rows.names[i]}, B says {columns.names[j]}: {number(count)} {what}"
                    f" ({percent(count / total)})"
                    if count
                    else "",
                    pair=f"{a[0]}-{b[0]}" if single and count else "",
                    diagonal=single and a == b,
                )
            )
        table.append((rows.names[i], tuple(cells)))
    return MatrixView(columns.names, tuple(table), total, int(np.count_nonzero(matrix)))


def _heat(count: int, highest: int) -> int:
    """1..HEAT_STEPS, 0 for none. The square root keeps rare pairs visible beside frequent ones."""
    if count == 0:
        return 0
    return max(1, int(np.ceil(HEAT_STEPS * np.sqrt(count / highest))))


def _short(count: int) -> str:
    """A count in at most four characters."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if count >= size * 10:
            return f"{count // size}{unit}"
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


@dataclass(frozen=True)
class PairRow:
    """One label pair: what A and B say, how often, and that as a share of the most frequent one's, 0..1."""

    pair: str
    name_a: str
    name_b: str
    count: str
    share: float
    title: str


@dataclass(frozen=True)
class PairList:
    """The rows that are listed, and what is not; ``total`` pictures in ``pairs`` label pairs are there in all."""

    rows: tuple[PairRow, ...]
    total: int
    pairs: int
    rest: str


def pair_list(found: LabelPairs, names: tuple[str, ...], what: str) -> PairList:
    """The most frequent of the label pairs; ``what`` is the noun of their counts, in the plural."""
    shown = found.by_frequency()[:MOST_PAIRS]
    pairs, counts = found.pairs[shown].tolist(), found.counts[shown].tolist()
    left = len(found) - len(shown)
    rest = f"{count_of(left, 'rarer pair')} with {number(found.total - sum(counts))} {what} not listed here"
    return PairList(
        rows=tuple(
            PairRow(
                pair=f"{a}-{b}",
                name_a=names[a],
                name_b=names[b],
                count=number(count),
                share=round(count / counts[0], 3),
                title=f"{number(count)} {what} ({percent(count / found.total)})",
            )
            for (a, b), count in zip(pairs, counts, strict=True)
        ),
        total=found.total,
        pairs=len(found),
        rest=f"{rest}; results.json has all." if left else "",
    )


# -- three models or more ---------------------------------------------------------------------------------------------


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
        figures += ["-" if (time := times[index]) is None else figure(time)] if times else []
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
    alone_wrong = sum(counts["pictures"] for who, counts in (data.results.faults or {}).items() if len(who) == 1)
    return ManyView(tuple(columns), tuple(rows), tuple(tables), _majority(data) if juried else "", alone_wrong)


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
    """Who says what: of two models one after the other, of more by groups."""
    if len(labels) == 2:
        return tuple(((role_name(index),), names[label]) for index, label in enumerate(labels))
    return tuple((tuple(map(role_name, models)), names[label]) for label, models in sides(labels))
