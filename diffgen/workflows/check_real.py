"""What a check measures on the real images, before anything is searched for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diffgen.comparison.plan import Prepared
from diffgen.comparison.preflight import RealAnswers, no_answers
from diffgen.comparison.results import class_names
from diffgen.comparison.smells import Smell, shown_worse
from diffgen.config import Limits, replace
from diffgen.events import Progress
from diffgen.gate.answers import (
    accuracy_drop,
    base_sure,
    calibration_rise,
    labels_alone,
    largest_shift,
    only_one,
    rate,
    top5_rate,
    undecided,
)
from diffgen.gate.classes import worst_classes
from diffgen.gate.values import GateValues, Shift, Steadiness
from diffgen.models import BlackBox
from diffgen.models.answer_table import AnswerTable
from diffgen.tasks.kept_answers import KeptAnswers
from diffgen.types import BoolArray, Int64Array, UInt8Array

_BATCH = 1024
_NO_CLASS = -1  # a label that is never right


def on_real_images(values: GateValues, prepared: Prepared, limits: Limits, progress: Progress) -> GateValues:
    """The values with everything that the answers to the real images come to.

    Args:
        values: what was measured before.
        prepared: what the search works with.
        limits: a sign of wrong pre-processing in the accuracy alone fails only where no limit is set on that.
        progress: told where the images must be asked about once more.
    """
    real, labels, models = prepared.real, prepared.images.labels, prepared.models
    kept, margin = real.answers.probabilities, real.summary.margin
    missing = _background(models, prepared.images.images, progress)
    said = what_counts(real.answers.labels, missing | real.unanswered)
    worse, faint = _smells(real, limits)
    values = replace(
        values,
        steadiness=Steadiness(
            real.summary.numeric_noise, margin, tuple(each for each in real.unsteady if each), real.batched
        ),
        smells=worse,
        faint_smells=faint,
        base_smells=tuple(each.sentence for each in real.smells[0] if each.sentence),
        undecided=undecided(kept, margin),
        unanswered=only_one(*real.unanswered.T) if real.silences else None,
        background=only_one(*missing.T) if any(map(_leaves_out, models)) else None,
        outputs=_outputs(*models),
        left_out=(_leaves_out(models[0]), _leaves_out(models[1])),
        real=rate(kept, margin, said),
        top5_real=top5_rate(real.answers),
        shift_real=Shift(largest_shift(kept), len(kept)),
    )
    names = class_names(models, prepared.images)
    if labels is None:
        sure = base_sure(kept)
        named = said[sure & (said[:, 0] != _NO_CLASS)]
        return replace(
            values,
            sure=rate(kept[sure], margin, said[sure]),
            class_disagreement=(worst_classes(named, named[:, 0], names) or (None,))[0],
        )
    shown, largest = worst_classes(said, labels, names) or (None, None)
    base, candidate = (
        sure and model.preprocessing.outputs != "logits"  # logits so large that no float tells the rest from 0
        for sure, model in zip(labels_alone(real.answers), models, strict=True)
    )
    return replace(
        values,
        accuracy=accuracy_drop(said, labels),
        classes=(len(np.unique(labels)), models[0].num_classes),
        class_accuracy=shown,
        largest_class_drop=largest,
        labels_alone=(base, candidate),
        calibration=None if base or candidate else calibration_rise(real.answers, said, labels),
    )


def _outputs(base: BlackBox, candidate: BlackBox) -> tuple[str, str]:
    """Nothing where one is a table of answers, which nobody else reads."""
    table = isinstance(base, AnswerTable) or isinstance(candidate, AnswerTable)
    return ("", "") if table else (base.answers_with, candidate.answers_with)


def _smells(real: RealAnswers, limits: Limits) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sentences about the candidate: of what is clearly worse than in the base, and of the rest."""
    base: dict[str, Smell] = {each.kind: each for each in real.smells[0]}
    worse: list[str] = []
    faint: list[str] = []
    for each in real.smells[1]:
        allowed = each.kind == "accuracy" and limits.max_accuracy_drop is not None
        if each.sentence:
            (worse if not allowed and shown_worse(each, base[each.kind]) else faint).append(each.sentence)
    return tuple(worse), tuple(faint)


def unanswered(models: Sequence[BlackBox], images: UInt8Array, answers: KeptAnswers, progress: Progress) -> BoolArray:
    """bool (N, M): which images a model says no class of: it answers that they are background, or NaN or infinity.

    Raises:
        RunError: a model raised.
    """
    return _background(models, images, progress) | no_answers(models, images, answers)


def _background(models: Sequence[BlackBox], images: UInt8Array, progress: Progress) -> BoolArray:
    """A model of which no value is left out for the background is not asked."""
    found = np.zeros((len(images), len(models)), dtype=np.bool_)
    for index, model in enumerate(models):
        if not _leaves_out(model):
            continue
        with progress.stage("Asking which images are background to a model", total=len(images)) as task:
            for start in range(0, len(images), _BATCH):
                batch = images[start : start + _BATCH]
                found[start : start + _BATCH, index] = model.answers_background(batch)
                task.advance(len(batch))
    return found


def _leaves_out(model: BlackBox) -> bool:
    return model.preprocessing.background in ("first", "last")


def what_counts(labels: Int64Array, missing: BoolArray) -> Int64Array:
    """int64 (N, M), the labels with -1 where a model says no class: that is never right, nor is the second-best."""
    return np.where(missing, _NO_CLASS, labels)
