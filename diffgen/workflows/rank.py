"""Puts the models of a run in order, by recognised faults or by a few labels of real images on which they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from diffgen.config import roles
from diffgen.errors import UserError
from diffgen.labels.reading import merge, read_labels
from diffgen.labels.sheet import image_id
from diffgen.labels.store import UNLABELLED
from diffgen.metrics.ranking import Standing, standing_by_clusters, standing_by_labels
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import read_finished
from diffgen.types import Result, several

_SHOWN = 10  # pictures that decide, named for each two neighbours


@dataclass(frozen=True)
class RankedModel:
    """One model in the order.

    Attributes:
        role: its letter.
        name: its file's name.
        right: share of the pictures on which it is right, 0..1.
        low, high: ends of a 95 % interval; 0 and 1 where one label or one kind of picture is all there is.
    """

    role: str
    name: str
    right: float
    low: float
    high: float


@dataclass(frozen=True)
class Neighbours:
    """Two models that follow each other in the order.

    Attributes:
        above, below: their letters.
        sure: share of the draws in which they keep this order, 0.5..1 or so.
        only_above, only_below: pictures on which that one alone of the two is right; these decide.
        pictures: some of those for the upper one, then of those for the lower one: numbers of triggers, or names on the
            sheet.
    """

    above: str
    below: str
    sure: float
    only_above: int
    only_below: int
    pictures: tuple[str, ...]


@dataclass(frozen=True)
class RankResult(Result):
    """Models in order, the best first.

    Attributes:
        run: the run folder.
        basis: "faults": what the search found and the jury recognised, or "labels": real images that people labelled.
        pictures: that the order rests on.
        of: real images on which models differ, of which ``pictures`` were labelled; 0 for "faults".
        images: real images that were asked about; 0 for "faults".
        models: the best first.
        neighbours: how sure each step of the order is.
    """

    run: str
    basis: str
    pictures: int
    of: int
    images: int
    models: tuple[RankedModel, ...]
    neighbours: tuple[Neighbours, ...]


def rank(
    run: str | Path, *, sheets: str | Path | Sequence[str | Path] = (), partial: bool = False, seed: int = 0
) -> RankResult:
    """The models of a run in order.

    Without sheets by their faults among what the search found and the jury recognised: an order of what was met, for
    nobody drew these pictures at random. With sheets by the labels of the real images that :func:`diffgen.rank_export`
    chose: an estimate for all real images that it was given.

    Args:
        run: the run folder.
        sheets: filled-in sheets, or one, of the latest :func:`diffgen.rank_export` with all their rows; several are
            several people's, merged by majority.
        partial: rows without a label are allowed.
        seed: of the intervals.

    Raises:
        UserError: no finished run there; without sheets, it has no jury or nothing recognised; with sheets, nothing was
            exported or they are not whole, or of an earlier export.
    """
    given, folder = several(sheets), RunFolder.open(run)
    names = tuple(str(entry["name"]) for _, entry in sorted(folder.manifest["files"].items()))
    return _by_labels(folder, names, given, partial, seed) if given else _by_faults(folder, names, seed)


def _by_faults(folder: RunFolder, names: Sequence[str], seed: int) -> RankResult:
    with folder.reading():
        results, triggers = read_finished(folder), folder.read_judged()
        kept = triggers[triggers.recognised_distinct]
    if len(kept) == 0:
        why = results.no_jury or "The jury recognises none of its pictures."
        raise UserError(
            f"The models of {folder.path} cannot be ranked by their faults: {why} Rank them by labels instead: "
            "diffgen rank RUN --export FOLDER."
        )
    wrong = kept.faults
    standing = standing_by_clusters(wrong, kept.known.cells, seed=seed)
    identifiers = [str(number) for number in kept.numbers.tolist()]
    return _result(folder, "faults", names, standing, ~wrong, identifiers, of=0, images=0)


def _by_labels(
    folder: RunFolder, names: Sequence[str], sheets: Sequence[str | Path], partial: bool, seed: int
) -> RankResult:
    if not folder.has_arrays("rank"):
        raise UserError(
            f"No short list of {folder.path} was exported, so there is nothing that these labels are of; write one "
            "with diffgen rank RUN --export FOLDER."
        )
    with folder.reading():
        stored, classes = folder.read_arrays("rank"), read_finished(folder).class_names
    ids = [image_id(each) for each in stored["hashes"]]
    said = [read_labels(Path(sheet), ids, classes, partial=partial, whole=True) for sheet in sheets]
    labels = merge(np.array([[each[identifier] for identifier in ids] for each in said], dtype=np.int64)).labels
    known, about = labels != UNLABELLED, stored["about"]
    if not known.any():
        raise UserError("No picture of the sheets has a label on which most agree; label more.")
    right = stored["said"] == labels[:, None]
    # what is left out, or not agreed on, is taken to be like the rest of the sheet
    chance = stored["chance"][known] * known.mean()
    standing = standing_by_labels(
        right[known],
        stored["guessed"][known].astype(np.float32),
        chance,
        guessed_sum=np.asarray(about["guessed"], dtype=np.float64),
        pictures=about["disagreements"],
        seed=seed,
    )
    chosen = [identifier for identifier, there in zip(ids, known.tolist(), strict=True) if there]
    return _result(
        folder,
        "labels",
        names,
        standing,
        right[known],
        chosen,
        of=about["disagreements"],
        images=about["images"],
    )


def _result(
    folder: RunFolder,
    basis: str,
    names: Sequence[str],
    standing: Standing,
    right: np.ndarray[Any, np.dtype[np.bool_]],
    identifiers: Sequence[str],
    *,
    of: int,
    images: int,
) -> RankResult:
    letters = roles(names)
    order, shares = np.argsort(-standing.values, kind="stable").tolist(), standing.as_shares()
    neighbours = []
    for above, below in pairwise(order):
        for_it = np.flatnonzero(right[:, above] & ~right[:, below]).tolist()
        against = np.flatnonzero(right[:, below] & ~right[:, above]).tolist()
        shown = (*for_it[:_SHOWN], *against[:_SHOWN])
        neighbours.append(
            Neighbours(
                letters[above],
                letters[below],
                float(standing.above[above, below]),
                len(for_it),
                len(against),
                tuple(identifiers[row] for row in shown),
            )
        )
    return RankResult(
        run=str(folder.path),
        basis=basis,
        pictures=len(right),
        of=of,
        images=images,
        models=tuple(
            RankedModel(
                letters[index],
                names[index],
                float(shares.values[index]),
                float(shares.low[index]),
                float(shares.high[index]),
            )
            for index in order
        ),
        neighbours=tuple(neighbours),
    )
