"""Classification: a model's answer is K probabilities, and what it says is the label of the highest one.

Here stands, once, what it means that models disagree, and what a behaviour is: what each of the models says, together
with the cell of the real images that the picture lies in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from diffgen.config import roles
from diffgen.types import Float32Array, Int64Array

if TYPE_CHECKING:
    # only for the types: who draws a report waits for no torch
    import torch


ALL, SEVERAL = "all", "several"  # verdicts besides those about a model alone
_TOP = 5
_SOME = 5  # names in a sentence
# A prime below 2**43: with a cell of 20 bits behind it a number fits into 64 bits, and so does it times 2**20 classes.
PAIR_NUMBERS = 2**43 - 57


def role_name(index: int) -> str:
    """What the model of a number is called: A, B, C, ..."""
    return roles(index + 1)[index]


def those(models: int) -> str:
    """So many models in a sentence about what sets them apart: ``A and B``, or ``the models``."""
    return "A and B" if models == 2 else "the models"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: ``A``, ``A and B``, or ``A, B and C``."""
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def some_of(names: Sequence[str]) -> str:
    """The first names in a sentence: all of five or fewer."""
    return listed(names) if len(names) <= _SOME else f"{', '.join(names[:_SOME])} and more"


def labels_of(probabilities: Float32Array) -> Int64Array:
    """int64 (N, M): what each model says, for float32 (N, M, K); one more axis in front or none will do."""
    return np.asarray(probabilities.argmax(axis=-1), dtype=np.int64)


def differ(labels: Any) -> Any:
    """Whether the M models say more than one thing, however undecided they are.

    Args:
        labels: int64 (N, M), an array or a tensor.

    Returns:
        bool (N,) of the same kind.
    """
    return (labels != labels[:, :1]).any(1)


def answer_margin(probabilities: torch.Tensor) -> torch.Tensor:
    """Gap between the two highest probabilities of a model, the smallest over the models.

    A disagreement whose margin is no larger than the numeric noise of the models may be gone when the image is asked
    about in another batch; it is not counted.

    Args:
        probabilities: float32 (N, M, K), K >= 2.

    Returns:
        float32 (N,) in [0, 1].
    """
    best = probabilities.topk(2, dim=2).values
    return (best[:, :, 0] - best[:, :, 1]).amin(dim=1)


def smallest_margin(probabilities: NDArray[Any]) -> NDArray[Any]:
    """The same as :func:`answer_margin`, of an array: how decided the least decided model is."""
    best = np.partition(probabilities, -2, axis=2)
    return np.asarray((best[..., -1] - best[..., -2]).min(axis=1))


def disagree(probabilities: torch.Tensor, margin: float) -> torch.Tensor:
    """bool (N,): the models say more than one thing, and each is decided by more than the margin.

    Args:
        probabilities: float32 (N, M, K).
        margin: the gap of the two highest probabilities that every model must exceed; see :func:`answer_margin`.
    """
    differs: torch.Tensor = differ(probabilities.argmax(dim=2))
    return differs & (answer_margin(probabilities) > margin)


def label_numbers(labels: torch.Tensor, classes: int) -> torch.Tensor:
    """int64 (N,): one number for each ordered tuple of labels, for int64 (N, M) in 0..``classes`` - 1.

    With so many models and classes that there are more tuples than numbers up to ``PAIR_NUMBERS``, two tuples may get
    the same one, as rarely as by chance.
    """
    numbers = labels[:, 0] * 0
    for column in labels.unbind(dim=1):
        numbers = (numbers * classes + column) % PAIR_NUMBERS
    return numbers


def behaviours(labels: Int64Array, cells: Int64Array) -> Int64Array:
    """int64 (N, M + 1): what each of the M models says, and the cell. Equal rows are one behaviour.

    Args:
        labels: int64 (N, M).
        cells: int64 (N,).
    """
    return np.column_stack([labels, cells]).astype(np.int64)


def rows_by_key(keys: Int64Array) -> Iterator[tuple[tuple[int, ...], Int64Array]]:
    """Each different row of int64 (N, D), ascending, with the numbers of the rows that are equal to it, ascending."""
    if len(keys) == 0:
        return
    order = np.lexsort(keys.T[::-1])
    ordered = keys[order]
    starts = np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1
    for rows in np.split(order, starts):
        yield tuple(keys[rows[0]].tolist()), rows


def top5_flips(probabilities: Float32Array) -> NDArray[np.bool_]:
    """bool (N,): whether the label of one of two models is not among the five highest of the other one.

    Args:
        probabilities: float32 (N, 2, T), of all classes, or of those that are kept: what both say, and the five
            highest of each, are among them (:mod:`diffgen.tasks.kept_answers`).
    """
    labels = probabilities.argmax(axis=2)
    flips = np.zeros(len(labels), dtype=np.bool_)
    for one, other in ((0, 1), (1, 0)):
        own = np.take_along_axis(probabilities[:, other], labels[:, one : one + 1], axis=1)
        flips |= (probabilities[:, other] > own).sum(axis=1) >= _TOP
    return flips


def faults(labels: Int64Array, named: Int64Array, recognised: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which models are wrong about pictures that can be recognised.

    Args:
        labels: int64 (N, M), what each model says.
        named: int64 (N,), what the jury says that the picture shows.
        recognised: bool (N,), whether the jury can name it. Of what it cannot name nobody is wrong.

    Returns:
        bool (N, M).
    """
    return np.asarray(recognised[:, None] & (labels != named[:, None]))


def by_verdict(wrong: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    """Who is wrong, for bool (N, M) of :func:`faults`: verdict -> bool (N,); a row is in at most one of them.

    In this order: the last model alone, ..., the first alone, ``SEVERAL`` of three models or more, ``ALL``.
    """
    count, models = wrong.sum(axis=1), wrong.shape[1]
    found = {role_name(index): wrong[:, index] & (count == 1) for index in reversed(range(models))}
    if models > 2:
        found[SEVERAL] = (count > 1) & (count < models)
    return {**found, ALL: count == models}


def who_is_wrong(verdict: str, models: int) -> str:
    """A verdict of :func:`by_verdict` in words: ``B is wrong where A is right``, ``both are wrong``."""
    if verdict == ALL:
        return f"{'both' if models == 2 else 'all'} are wrong"
    if verdict == SEVERAL:
        return "several, but not all, are wrong"
    return f"{verdict} is wrong where {'BA'['AB'.index(verdict)] + ' is' if models == 2 else 'all others are'} right"


def widest_gap(probabilities: Float32Array) -> Float32Array:
    """float32 (N,): the largest Euclidean distance between the answers of two of the models, for float32 (N, M, K)."""
    pairs = combinations(range(probabilities.shape[1]), 2)
    gaps = [np.linalg.norm(probabilities[:, i] - probabilities[:, j], axis=1) for i, j in pairs]
    return np.asarray(np.max(gaps, axis=0))


# -- three models or more: who stands alone, what the majority says, which two differ --------------------------------

NO_MAJORITY = -1
FEWEST = 3  # models of which one can stand alone


def stands_alone(labels: Int64Array) -> NDArray[np.bool_]:
    """Which model says something else than all others, while these say one and the same.

    Args:
        labels: int64 (N, M) of three models or more.

    Returns:
        bool (N, M), at most one of a row.
    """
    alike = labels[:, :, None] == labels[:, None, :]
    others = alike.sum(axis=2) == labels.shape[1] - 1  # itself and all but one
    alone = alike.sum(axis=2) == 1
    return np.asarray(alone & (others.sum(axis=1, keepdims=True) == labels.shape[1] - 1))


def majority(labels: Int64Array) -> Int64Array:
    """int64 (N,): what more than half of the models say, or ``NO_MAJORITY``, for int64 (N, M)."""
    if len(labels) == 0:
        return np.empty(0, dtype=np.int64)
    votes = (labels[:, :, None] == labels[:, None, :]).sum(axis=2)
    best = votes.argmax(axis=1)
    rows = np.arange(len(labels))
    found: Int64Array = np.where(2 * votes[rows, best] > labels.shape[1], labels[rows, best], NO_MAJORITY)
    return found


def pairwise(labels: Int64Array) -> Int64Array:
    """int64 (M, M): on how many of the N rows of int64 (N, M) each two models say something else."""
    models = labels.shape[1]
    counts = np.zeros((models, models), dtype=np.int64)
    for one in range(models):
        counts[one] = (labels != labels[:, one : one + 1]).sum(axis=0)
    return counts


def sides(labels: Sequence[int]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """What is said, and the numbers of the models that say it: most models first, then in the order of the models."""
    groups: dict[int, list[int]] = {}
    for index, label in enumerate(labels):
        groups.setdefault(label, []).append(index)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[1][0]))
    return tuple((label, tuple(models)) for label, models in ordered)


# -- how often A says one class and B another: the pairs that occur, and not a table of all that there could be ------

#: With at most this many classes the counts are a matrix in results.json and in the report, else a list of pairs.
MATRIX_CLASSES = 30
PairsJson: TypeAlias = Sequence[Sequence[int]] | Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class LabelPairs:
    """Counts of ordered label pairs.

    Attributes:
        classes: K, how many classes there are.
        pairs: int64 (P, 2), ascending: what A says and what B says.
        counts: int64 (P,), how often each occurs, at least once.
    """

    classes: int
    pairs: Int64Array
    counts: Int64Array

    @classmethod
    def of(cls, labels: Int64Array, classes: int) -> LabelPairs:
        """Those of the first two models, for int64 (N, M) labels in 0..``classes`` - 1."""
        pairs, counts = np.unique(labels[:, :2], axis=0, return_counts=True)
        return cls(classes, pairs.reshape(-1, 2).astype(np.int64), counts.astype(np.int64))

    @classmethod
    def of_matrix(cls, matrix: Sequence[Sequence[int]] | Int64Array) -> LabelPairs:
        """Those of a whole table, (K, K), rows are what A says."""
        table = np.asarray(matrix, dtype=np.int64).reshape(len(matrix), len(matrix))
        pairs = np.argwhere(table)
        return cls(len(table), pairs.astype(np.int64), table[tuple(pairs.T)])

    @classmethod
    def read(cls, value: PairsJson, classes: int) -> LabelPairs:
        """What :meth:`as_json` gave, in this version or an earlier one, which wrote matrices of any size.

        Raises:
            KeyError, TypeError, ValueError: it cannot be.
        """
        if not isinstance(value, Mapping):
            return cls.of_matrix(value)
        rows = np.asarray(value["pairs"], dtype=np.int64).reshape(-1, 3)
        rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
        return cls(classes, rows[:, :2], rows[:, 2])

    def as_json(self) -> PairsJson:
        """A matrix as lists for few classes; for many ``{"pairs": [[a, b, count], ...]}``, the most frequent first."""
        if self.classes <= MATRIX_CLASSES:
            rows: list[list[int]] = self.matrix().tolist()
            return rows
        order = self.by_frequency()
        return {"pairs": np.column_stack([self.pairs, self.counts])[order].tolist()}

    def matrix(self) -> Int64Array:
        """int64 (K, K): row is what A says, column what B says; for few classes."""
        table = np.zeros((self.classes, self.classes), dtype=np.int64)
        table[tuple(self.pairs.T)] = self.counts
        return table

    def by_frequency(self) -> Int64Array:
        """int64 (P,): the rows of the pairs, the most frequent first, of equal ones the first."""
        return np.argsort(-self.counts, kind="stable").astype(np.int64)

    @property
    def total(self) -> int:
        """How many pictures were counted."""
        return int(self.counts.sum())

    def __len__(self) -> int:
        return len(self.counts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelPairs):
            return NotImplemented
        return self.classes == other.classes and all(
            np.array_equal(mine, theirs) for mine, theirs in ((self.pairs, other.pairs), (self.counts, other.counts))
        )
