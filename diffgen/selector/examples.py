"""What the selector learns from: labelled triggers, each with the model that is right on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from diffgen.config import roles
from diffgen.errors import UserError
from diffgen.metrics.near_duplicates import directions_of
from diffgen.metrics.relatives import groups_of_relatives
from diffgen.origins import NO_SEED
from diffgen.runs.triggers import TriggerTable
from diffgen.tasks.classification import role_name
from diffgen.types import BoolArray, Int64Array

A, B = 0, 1
#: Fewer of one kind teach nothing that could be checked.
MIN_OF_A_KIND = 5


@dataclass(frozen=True)
class Examples:
    """N labelled triggers that the selector is trained on.

    Attributes:
        rows: int64 (N,), among the triggers that were given.
        targets: int64 (N,): number of the model that is right. Where several of many are right, it is the one of these
            that is right most often, so that the forest departs from it only where it has to.
        right: bool (N, M).
        groups: int64 (N,), the behaviour that each belongs to.
        both_wrong: labelled triggers on which none is right, whether they are among the N or not.
    """

    rows: Int64Array
    targets: Int64Array
    right: np.ndarray[tuple[int, int], np.dtype[np.bool_]]
    groups: Int64Array
    both_wrong: int

    def __len__(self) -> int:
        return len(self.rows)

    def only(self, chosen: BoolArray) -> Examples:
        """Those that are chosen, bool (N,)."""
        columns = {name: getattr(self, name)[chosen] for name in ("rows", "targets", "right", "groups")}
        return replace(self, **columns)


def make_examples(
    labels: Int64Array,
    said: Int64Array,
    behaviours: Int64Array,
    *,
    limit: int | None = None,
    seed: int = 0,
) -> Examples:
    """Choose the triggers that teach something.

    Those on which none is right are left out, as in the paper: whom to trust does not matter.

    Args:
        labels: int64 (n,), what each picture shows; negative where that is not known or none of the classes.
        said: int64 (n, M), what the models say; never all the same.
        behaviours: int64 (n, M + 1).
        limit, seed: if there are more than ``limit`` examples, a random sample of that size is used.

    Raises:
        UserError: there are no labels, or too few on which A, or B, is right.
    """
    if not (labels >= 0).any():
        raise UserError(
            "No trigger of the run has a label; label some with 'diffgen label' first, or take the jury's word with "
            "--labels jury."
        )
    right = said == labels[:, None]
    known, models = labels >= 0, said.shape[1]
    targets = _targets(right, known)
    kept = known & (targets < models) & _of_several(targets, known, models)
    if limit is not None and kept.sum() > limit:
        drawn = np.random.default_rng(seed).choice(np.flatnonzero(kept), limit, replace=False)
        kept = np.isin(np.arange(len(kept)), drawn)
    counts = np.bincount(targets[kept], minlength=models)[:models]
    if models == 2:
        for target, name in ((A, "A"), (B, "B")):
            count = int(counts[target])
            if count < MIN_OF_A_KIND:
                raise UserError(
                    f"Of {int(known.sum()):,} labelled triggers, model {name} is right on {count:,} only, so there "
                    f"is nothing to tell apart (at least {MIN_OF_A_KIND} are needed); label more, or trust the other "
                    "model."
                )
    elif (counts >= MIN_OF_A_KIND).sum() < 2:
        best = role_name(int(right[known].sum(axis=0).argmax()))
        raise UserError(
            f"Of {int(known.sum()):,} labelled triggers, no model but {best} is right on {MIN_OF_A_KIND} on which "
            f"{best} is wrong, so there is nothing to tell apart; label more, or trust {best}."
        )
    _, groups = np.unique(behaviours[kept], axis=0, return_inverse=True)
    return Examples(
        rows=np.flatnonzero(kept),
        targets=targets[kept],
        right=right[kept],
        groups=groups.reshape(-1),
        both_wrong=int((known & (targets == models)).sum()),
    )


def _targets(right: np.ndarray[tuple[int, int], np.dtype[np.bool_]], known: np.ndarray[Any, Any]) -> Int64Array:
    """Which model each picture teaches to trust, as :class:`Examples` has it, the first of two that are as good.

    M where none of the M is right.
    """
    best_first = np.argsort(-right[known].sum(axis=0), kind="stable")
    first = right[:, best_first].argmax(axis=1)
    return np.where(right.any(axis=1), best_first[first], right.shape[1]).astype(np.int64)


def _of_several(targets: Int64Array, known: np.ndarray[Any, Any], models: int) -> np.ndarray[Any, Any]:
    """bool (n,): the picture's model is one that may be trusted. Of many, some have too few pictures to be learnt."""
    if models == 2:
        return np.ones(len(targets), dtype=np.bool_)
    counts = np.bincount(targets[known], minlength=models + 1)
    return np.asarray(counts[targets] >= MIN_OF_A_KIND)


def divisions(finds: TriggerTable, examples: Examples, *, threshold: float) -> dict[str, Int64Array | None]:
    """Name of each way to divide the N examples -> int64 (N,), the group of each; None: each is a group.

    "random" is the published one. "by behaviour" and, where finds are made from real images, "by real image" hold
    near-duplicates together, too: a search finds much the same picture in several behaviours, and from several images.

    Args:
        examples: N.
        threshold: in (-1, 1], see :class:`diffgen.metrics.near_duplicates.DistinctPictures`.

    Raises:
        UserError: a part of the run cannot be read.
    """
    chosen = finds[examples.rows]
    own = {"by behaviour": examples.groups}
    if chosen.seeds is not None and (chosen.seeds != NO_SEED).any():
        own["by real image"] = chosen.seeds
    column = chosen.image_column
    alike = {name: groups_of_relatives(column.batches(), of, threshold=threshold) for name, of in own.items()}
    return {"random": None, **alike}


def made_from(finds: TriggerTable, examples: Examples, images: Int64Array, *, threshold: float) -> BoolArray:
    """bool (N,): the examples that are made from some real images, and near-duplicates of these examples.

    What an operator leads towards such an image (only where it is named in the settings) counts as made from its seed
    alone.

    Args:
        finds, examples, threshold: as for :func:`divisions`.
        images: int64, rows of the real images.

    Raises:
        UserError: a part of the run cannot be read.
    """
    chosen = finds[examples.rows]
    own = np.isin(np.full(len(chosen), NO_SEED) if chosen.seeds is None else chosen.seeds, images)
    if not own.any():
        return own
    of_these = directions_of(chosen[own].images)
    batches = chosen.image_column.batches()
    return np.concatenate([(directions_of(some) @ of_these.T >= threshold).any(axis=1) for some in batches]) | own


# at most, of each model and of each behaviour
_BEHAVIOURS_SHOWN = 8
_PICTURES_SHOWN = 6
_MIN_OF_A_BEHAVIOUR = 3

# how far the trusted model is ahead of the worst one, what is said of it, and numbers of triggers
_Entry: TypeAlias = tuple[int, dict[str, Any], Int64Array]


def trusted_behaviours(finds: TriggerTable, labels: Int64Array) -> tuple[list[dict[str, Any]], Int64Array]:
    """The behaviours in which one model is right most often: JSON values, and the triggers that show them.

    All labelled pictures of a behaviour count, also where no model is right or the selector did not learn from them: it
    would be asked about each.

    Args:
        finds: N triggers.
        labels: int64 (N,), what each shows; negative where that is not known or none of the classes.

    Returns:
        one entry a behaviour, those of A first, and int64 trigger numbers, ``shown`` of them for each entry.
    """
    entries: list[_Entry] = []
    known = np.flatnonzero(labels >= 0)
    right = finds.labels == labels[:, None]
    behaviours, groups, sizes = np.unique(finds.behaviours[known], axis=0, return_inverse=True, return_counts=True)
    by_group = np.split(known[np.argsort(groups.reshape(-1), kind="stable")], np.cumsum(sizes)[:-1])
    for (*said, cell), members in zip(behaviours.tolist(), by_group, strict=True):
        counts = right[members].sum(axis=0)
        winner = int(counts.argmax())
        lead = int(counts[winner] - counts.min())
        if counts[winner] < _MIN_OF_A_BEHAVIOUR or lead == 0:
            continue
        picks = members[right[members, winner]][:_PICTURES_SHOWN]
        about = {
            "trust": role_name(winner),
            "labels": said,
            "cell": cell,
            "right": counts.tolist(),
            "labelled": len(members),
            "shown": len(picks),
        }
        entries.append((lead, about, finds.numbers[picks]))

    chosen = []
    for role in roles(finds.labels.shape[1]):
        of_role = sorted((each for each in entries if each[1]["trust"] == role), key=lambda each: each[0], reverse=True)
        chosen += [each[1:] for each in of_role[:_BEHAVIOURS_SHOWN]]
    shown = np.concatenate([numbers for _, numbers in chosen]) if chosen else np.empty(0, dtype=np.int64)
    return [about for about, _ in chosen], shown
