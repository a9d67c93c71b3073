"""Reads the pictures of a report: triggers of the gallery, rejected ones, real images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffgen.metrics.counting import ACCEPTED
from diffgen.origins import Step
from diffgen.report.data import BehaviourGroup, JuryOpinion, Picture
from diffgen.report.made_by import made_by
from diffgen.report.origins import origin_sentence
from diffgen.runs.figures import JuryFigures
from diffgen.runs.triggers import UNKNOWN_LABEL, TriggerTable
from diffgen.tasks.classification import labels_of, rows_by_key
from diffgen.types import Int64Array

_ACCEPTED_SHOWN = 24


@dataclass(frozen=True)
class Pictures:
    """The pictures of a report that are triggers.

    Attributes:
        gallery: valid ones, in the order in which they were chosen.
        rejected: some that a filter rejected.
    """

    gallery: tuple[Picture, ...]
    rejected: tuple[Picture, ...]

    @property
    def accepted(self) -> tuple[Picture, ...]:
        """Some of the gallery, to be looked at beside the rejected ones."""
        picks = np.linspace(0, len(self.gallery) - 1, min(len(self.gallery), _ACCEPTED_SHOWN)).astype(int)
        return tuple(self.gallery[pick] for pick in picks)


def read_pictures(
    arrays: dict[str, Any],
    triggers: TriggerTable,
    *,
    class_names: Sequence[str],
    filters: Sequence[str],
    drawn_by: str,
    jury: JuryFigures | None,
) -> Pictures:
    """The pictures that were chosen when the run ended.

    Args:
        arrays: those of report.npz.
        triggers: of the run, with verdicts.
        class_names: K names.
        filters: names of the validity filters.
        drawn_by: who draws the pictures that are not made from real ones, in words.
        jury: of the run, or None.
    """
    shown, rejected = arrays["shown"].tolist(), arrays["rejected"].tolist()
    numbers: list[int] = [*shown, *rejected]
    images = triggers.images_of(np.asarray(numbers, dtype=np.int64))
    # of what is shown, every filter was asked, also those after the one that rejected it
    scores = dict(zip(numbers, arrays.get("shown_scores", ()), strict=False))
    nearest = arrays["nearest_real"]
    made = []
    for position, (number, image) in enumerate(zip(numbers, images, strict=True)):
        rejected_by = int(triggers.known.rejected_by[number])
        own = scores.get(number, triggers.known.scores[number])
        known = {name: float(score) for name, score in zip(filters, own, strict=True) if not np.isnan(score)}
        made.append(
            Picture(
                image=image,
                labels=tuple(triggers.labels[number].tolist()),
                probabilities=triggers.probabilities[number],
                classes=None if triggers.classes is None else triggers.classes[number],
                identifier=number,
                scores={**known, "divergence": float(triggers.divergence[number])},
                rejected_by=None if rejected_by == ACCEPTED else filters[rejected_by],
                nearest_real=nearest[position] if position < len(nearest) else None,
                origin=origin_sentence(triggers.origin(number), class_names, drawn_by),
                jury=opinion(triggers, number, len(class_names), jury),
            )
        )
    return Pictures(tuple(made[: len(shown)]), tuple(made[len(shown) :]))


def opinion(triggers: TriggerTable, row: int, classes: int, jury: JuryFigures | None) -> JuryOpinion | None:
    """What the jury says of a trigger, or None: there was none, or it names a class that is not known."""
    named, seeds = triggers.known.named, triggers.known.seed_labels
    if named is None or not 0 <= named[row] < classes:
        return None
    recognised, seed = bool(triggers.recognised[row]), UNKNOWN_LABEL if seeds is None else int(seeds[row])
    contradicts = not recognised and seed not in (UNKNOWN_LABEL, named[row]) and 0 <= seed < classes
    rests_on = "" if jury is None else str(triggers[row : row + 1].bases(jury.unaided)[0])
    return JuryOpinion(int(named[row]), recognised, seed if contradicts else None, rests_on)


def grouped(gallery: Sequence[Picture], triggers: TriggerTable) -> tuple[BehaviourGroup, ...]:
    """The gallery by verdict and behaviour, in the order in which the pictures were chosen (most frequent first)."""
    behaviours = triggers.behaviours
    groups = []
    for verdict, rows in triggers.distinct_by_verdict.items():
        numbers = np.flatnonzero(rows)
        rows_of = {key: numbers[own] for key, own in rows_by_key(behaviours[numbers])}
        members: dict[tuple[int, ...], list[Picture]] = {}
        for each in gallery:
            if rows[each.identifier]:
                members.setdefault(tuple(behaviours[each.identifier].tolist()), []).append(each)
        groups += [
            BehaviourGroup(
                labels=key[:-1],
                cell=key[-1],
                count=len(rows_of[key]),
                pictures=tuple(pictures),
                verdict=verdict,
                made_by=made_by(_recipes(triggers, rows_of[key])),
            )
            for key, pictures in members.items()
        ]
    return tuple(groups)


def _recipes(triggers: TriggerTable, rows: Int64Array) -> list[tuple[Step, ...]]:
    """What was done to each of some triggers; nothing to those that were drawn."""
    return [triggers.origin(row).recipe for row in rows.tolist()]


def read_real_pictures(arrays: dict[str, Any]) -> tuple[Picture, ...]:
    """Some of the real images on which the models disagree."""
    return tuple(
        Picture(
            image=image,
            labels=tuple(labels_of(probabilities).tolist()),
            probabilities=probabilities,
            identifier=int(row),
            true_label=None if label < 0 else int(label),
        )
        for image, probabilities, row, label in zip(
            arrays["real_images"], arrays["real_probabilities"], arrays["real_rows"], arrays["real_labels"], strict=True
        )
    )
