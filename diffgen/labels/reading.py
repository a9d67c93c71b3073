"""Reads label sheets that people filled in, merges them by majority, and measures how far they agree."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from diffgen.errors import UserError
from diffgen.labels.store import INVALID, UNLABELLED
from diffgen.runs.opening import read_text
from diffgen.types import Int64Array

INVALID_WORD = "invalid"


def read_labels(
    path: Path, known: Collection[str], class_names: Sequence[str], *, partial: bool, whole: bool = False
) -> dict[str, int]:
    """The labels of a CSV with columns ``id`` and ``label``, as the page saves it or a spreadsheet does.

    A label is the name of a class, its number where no class is named by a number, or ``invalid``. Small letters and
    capitals are told apart only between classes whose names differ in nothing else. Commas and semicolons are taken
    between columns; further columns are not looked at.

    Args:
        known: the ids that the run has, or those of the sheet that it exported last.
        class_names: K names in label order.
        partial: whether a row may have no label.
        whole: every one of ``known`` has to have a row.

    Returns:
        id -> class, ``INVALID``, or ``UNLABELLED`` for a row without a label.

    Raises:
        UserError: it cannot be read, or has unknown or repeated ids, lacks some, or has unknown classes or rows without
            a label.
    """
    rows = _rows(path)
    found: dict[str, int] = {}
    values = label_values(class_names)
    for line, row in rows:
        identifier = row["id"].strip()
        if identifier not in known:
            whose, mend = (
                ("not on the sheet that this run exported last", "give that sheet.")
                if whole
                else ("none of this run's", "import the sheet into the run that it was exported from.")
            )
            raise UserError(f"The picture {identifier!r} in line {line} of {path} is {whose}; {mend}")
        if identifier in found:
            raise UserError(f"The picture {identifier!r} is in {path} twice (again in line {line}); leave one of them.")
        text = row["label"].strip()
        label = values.get(text, values.get(text.casefold()))
        if text and label is None:
            raise UserError(
                f"The label {text!r} in line {line} of {path} is not a class; write one of "
                f"{', '.join(list(class_names)[:12])}{', ...' if len(class_names) > 12 else ''} or {INVALID_WORD}."
            )
        found[identifier] = UNLABELLED if label is None else label
    missing = [identifier for identifier in known if identifier not in found] if whole else []
    if missing:
        raise UserError(
            f"The sheet {path} lacks {len(missing):,} of the {len(known):,} pictures that this run exported last "
            f"(first {missing[0]}); give that sheet with all its rows, those without a label as well."
        )
    empty = [identifier for identifier, label in found.items() if label == UNLABELLED]
    if len(empty) == len(found):
        raise UserError(f"The sheet {path} has no label; label its pictures first.")
    if empty and not partial:
        raise UserError(
            f"The sheet {path} has no label for {len(empty):,} of {len(found):,} pictures (first {empty[0]}); label "
            "them, or add --partial to import the others."
        )
    return found


def label_values(class_names: Sequence[str]) -> dict[str, int]:
    """What may be written for each class: its name, and in small letters where that says which class is meant.

    Numbers too, unless a class is named by a number. A name that two classes have is none's.
    """
    names = [name.strip() for name in class_names]
    values = {str(number): number for number in range(len(names))}
    if any(name.isdecimal() for name in names):
        values = {}
    values[INVALID_WORD] = INVALID
    folded = [name.casefold() for name in names]
    # a class that is itself called "invalid" wins over the choice of that name
    for written in (folded, names):
        counts = Counter(written)
        values |= {name: number for number, name in enumerate(written) if counts[name] == 1}
    return values


def _rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    """(line, row) of a CSV that has the columns ``id`` and ``label``."""
    try:
        text = read_text(path, encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"The sheet {path} cannot be read ({error.strerror}); check the path.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"The sheet {path} is not text in UTF-8; save it as CSV in UTF-8.") from error
    first = text.partition("\n")[0]
    delimiter = ";" if first.count(";") > first.count(",") else ","
    try:
        reader = csv.DictReader(text.splitlines(), delimiter=delimiter, strict=True)
        names = [(name or "").strip().lower() for name in reader.fieldnames or ()]
        if not {"id", "label"} <= set(names):
            raise UserError(
                f"The sheet {path} has no columns 'id' and 'label' in its first line; keep those it came with."
            )
        reader.fieldnames = names
        rows = [(reader.line_num, {name: str(row[name] or "") for name in ("id", "label")}) for row in reader]
    except csv.Error as error:
        raise UserError(f"The sheet {path} is not CSV ({error}); save it as CSV in UTF-8.") from error
    if not rows:
        raise UserError(f"The sheet {path} has no rows; give one that was filled in.")
    return rows


@dataclass(frozen=True)
class Agreement:
    """The merged word of M annotators on N pictures.

    Attributes:
        labels: int64 (N,), ``UNLABELLED`` where no label has more votes than every other.
        ties: pictures with votes but without such a label.
        unanimous: pictures on which all who labelled them say the same.
        kappas: Cohen's kappa of each two annotators over the pictures that both labelled, in order of pairs; None
            where it is not defined (both gave one and the same label to everything, or share no picture).
    """

    labels: Int64Array
    ties: int
    unanimous: int
    kappas: tuple[float | None, ...]

    @property
    def kappa(self) -> float | None:
        """Mean over the pairs of annotators for which it is defined."""
        defined = [value for value in self.kappas if value is not None]
        return float(np.mean(defined)) if defined else None


def merge(annotations: Int64Array) -> Agreement:
    """Majority of what annotators say, int64 (M, N), ``UNLABELLED`` where one said nothing."""
    labels = np.full(annotations.shape[1], UNLABELLED, dtype=np.int64)
    ties = unanimous = 0
    for column, votes in enumerate(annotations.T.tolist()):
        counted = Counter(vote for vote in votes if vote != UNLABELLED).most_common(2)
        if not counted:
            continue
        unanimous += len(counted) == 1
        if len(counted) == 2 and counted[0][1] == counted[1][1]:
            ties += 1
        else:
            labels[column] = counted[0][0]
    kappas = tuple(_kappa(a, b) for a, b in combinations(annotations, 2))
    return Agreement(labels, ties, unanimous, kappas)


def _kappa(a: Int64Array, b: Int64Array) -> float | None:
    from sklearn.metrics import cohen_kappa_score

    both = (a != UNLABELLED) & (b != UNLABELLED)
    if len(np.unique(np.concatenate([a[both], b[both]]))) < 2:
        return None  # chance agreement is 1, and kappa 0 / 0
    return float(cohen_kappa_score(a[both], b[both]))
