"""The disagreement matrix as a heat-map table: which classes are drawn, and how dark each cell is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diffgen.report.wording import number, percent
from diffgen.types import Int64Array

#: With at most this many classes all of them are drawn, else only those that occur.
ALL_CLASSES = 12
#: Most rows and columns; the rest goes into one row or column "others", so that all sums stay complete.
MAX_CLASSES = 15
#: Steps of the colour scale; the style sheet has one class for each.
HEAT_STEPS = 8


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
