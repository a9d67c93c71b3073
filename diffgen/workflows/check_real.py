"""What a check measures on the real images, before anything is searched for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from diffgen.comparison.known_boxes import truth_of
from diffgen.comparison.known_maps import known_cells
from diffgen.comparison.plan import Prepared
from diffgen.comparison.preflight import RealAnswers, no_answers
from diffgen.comparison.results import class_names
from diffgen.comparison.smells import Smell, shown_worse
from diffgen.config import Limits, replace
from diffgen.events import Progress
from diffgen.gate.answers import Answers, labels_alone
from diffgen.gate.boxes import BoxAnswers
from diffgen.gate.conditions import measured_on
from diffgen.gate.maps import MapAnswers, against_masks
from diffgen.gate.values import GateValues, Steadiness
from diffgen.models import BlackBox
from diffgen.models.panel import panel_of
from diffgen.tasks.detection import Detection
from diffgen.tasks.kept_answers import KeptAnswers
from diffgen.tasks.segmentation import Differences, Segmentation
from diffgen.types import BoolArray, Float32Array, Int64Array, UInt8Array

_BATCH = 1024


def on_real_images(values: GateValues, prepared: Prepared, limits: Limits, progress: Progress) -> GateValues:
    """The values with everything that the answers to the real images come to.

    Args:
        limits: a sign of wrong pre-processing in the accuracy alone fails only where no limit is set on that.
        progress: told where the images must be asked about once more.
    """
    real, models = prepared.real, prepared.models
    worse, faint = _smells(real, limits)
    # logits may be so large that no float tells the rest from 0
    alone = tuple(
        sure and model.preprocessing.outputs != "logits"
        for sure, model in zip(labels_alone(real.answers), models, strict=True)
    )
    labels = prepared.images.labels
    seen = Answers(
        real.answers,
        real.summary.margin,
        background=_background(models, prepared.images.images, progress),
        silent=real.unanswered,
        labels=labels,
        names=class_names(models, prepared.images),
        leaves_out=any(map(_leaves_out, models)),
        probabilities_given=not any(alone),
        **_found(prepared),
    )
    values = replace(
        values,
        steadiness=Steadiness(
            real.summary.numeric_noise,
            real.summary.margin,
            tuple(each for each in real.unsteady if each),
            real.batched,
        ),
        smells=worse,
        faint_smells=faint,
        base_smells=tuple(each.sentence for each in real.smells[0] if each.sentence),
        outputs=_outputs(*models),
        left_out=(_leaves_out(models[0]), _leaves_out(models[1])),
        classes=None if labels is None else (len(np.unique(labels)), models[0].num_classes),
        labels_alone=(False, False) if labels is None else (alone[0], alone[1]),
    )
    return values.with_measured(measured_on("real", seen))


def _found(prepared: Prepared) -> dict[str, Any]:
    """What detectors find in the real images, or how maps of these differ; of classifiers nothing."""
    panel, images = panel_of(prepared.models), prepared.images.images
    if panel is None:
        return {}
    task, boxes, differences, known = panel.task, list[Float32Array](), list[Differences](), list[Int64Array]()
    with prepared.progress.stage(
        f"Asking for the {prepared.real.summary.outputs[0]} of the real images", len(images)
    ) as bar:
        for start in range(0, len(images), _BATCH):
            answers = panel.answers(images[start : start + _BATCH])
            if isinstance(task, Segmentation):
                maps = task.maps_of(answers)
                differences.append(task.differences(maps))
                truth_here = known_cells(task, prepared.images, np.arange(start, start + len(answers)))
                known.append(against_masks(maps, truth_here, len(task.classes)))
            else:
                boxes.append(answers)
            bar.advance(len(answers))
    if isinstance(task, Segmentation):
        return {"maps": MapAnswers.of(differences, task.sides[0] * task.sides[1], known)}
    assert isinstance(task, Detection)
    truth = truth_of(task, prepared.images)
    return {"boxes": BoxAnswers(task, np.concatenate(boxes), prepared.real.summary.margin, truth)}


def _outputs(base: BlackBox, candidate: BlackBox) -> tuple[str, str]:
    """Nothing where one is a table of answers, which nobody else reads."""
    return ("", "") if base.is_table or candidate.is_table else (base.answers_with, candidate.answers_with)


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


def seen_by(
    prepared: Prepared,
    images: UInt8Array,
    answers: KeptAnswers,
    progress: Progress,
    *,
    labels: Int64Array | None = None,
) -> Answers:
    """The answers of base and candidate to images that are no real ones. RunError if a model raised."""
    return Answers(
        answers,
        prepared.real.summary.margin,
        background=_background(prepared.models, images, progress),
        silent=no_answers(prepared.models, images, answers),
        labels=labels,
    )


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
    # of what finds boxes it says from which number on classes are counted
    return model.classifies and model.preprocessing.background in ("first", "last")
