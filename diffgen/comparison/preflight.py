"""A look at the models on the real images, before anything is trained."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from math import prod

import numpy as np
import torch

from diffgen.comparison.answers_kept import Asked, asked_once
from diffgen.comparison.classes import background_remarks, settle_background, several_labels
from diffgen.comparison.known_scores import KnownFigures, KnownScores
from diffgen.comparison.machine import ModelTimes, free_large_arrays
from diffgen.comparison.smells import Smell, doubts, smells_of
from diffgen.config import roles
from diffgen.config.budget import SMALL
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.metrics.calibration_error import calibration_error
from diffgen.metrics.intervals import exact_interval
from diffgen.models import BlackBox
from diffgen.models.answer_table import AnswerTable
from diffgen.models.noise import NumericNoise, drawn_rows, probe_rows, probed, settle_batches
from diffgen.models.panel import panel_of, task_of
from diffgen.runs.figures import Preflight
from diffgen.sampling import random_rows
from diffgen.tasks.classification import differ, disagree
from diffgen.tasks.kept_answers import KeptAnswers
from diffgen.types import BoolArray, Float32Array, ImageSet, Int64Array, UInt8Array
from diffgen.wording import count_of, percent

_NOISE_FACTOR = 10  # a margin this many times the noise that was seen
_SMALLEST_MARGIN, _LARGEST_MARGIN = 1e-6, 0.1
_SAME_FUNCTION = 1e-4  # two models that never differ by more are one model in two formats
_PREPARED = 256, 64  # images that a model looks at first: of small ones, and of large ones
_PROBED = 128  # images that the noise is measured on, at most
_REPEATS = 3  # how often each of them is asked about again
_BATCH = 1024, 32  # images asked about between two steps of the bar
_SOON = 5.0  # seconds after which a first answer does not wait for all real images
_NO_LABEL = -1  # of an image without an answer: no image has it
_NAMED = 10  # images without an answer
_RELABELLED = 0.02  # share of the real images; dynamic 8-bit quantization moves far fewer


@dataclass(frozen=True)
class RealAnswers:
    """What the models say of the real images.

    Attributes:
        summary: for the report.
        answers: of the M models.
        disagreements: int64 (n,), rows of the real images on which two models disagree by more than the margin.
        smells: of each model.
        unsteady: of each model, a sentence about a model that does not answer alike twice, or an empty one.
        batched: a sentence about each model that follows its batch, and is therefore asked one image at a time.
        doubts: those of the summary's warnings that wrong pre-processing, or another order of classes, would explain.
        milliseconds: that one image takes each model; None where a server answers.
        unanswered: bool (N, M), which images a model has no finite answer to.
        silences: a sentence about each model that has none to some, which names these.
        known: what they show where boxes or masks are known.
    """

    summary: Preflight
    answers: KeptAnswers
    disagreements: Int64Array
    smells: tuple[tuple[Smell, ...], ...] = ((), ())
    unsteady: tuple[str, ...] = ("", "")
    batched: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    milliseconds: tuple[float | None, ...] | None = None
    unanswered: BoolArray = field(default_factory=lambda: np.zeros((0, 2), dtype=np.bool_))
    silences: tuple[str, ...] = ()
    known: KnownFigures = field(default_factory=KnownFigures)


def silences_since(models: Sequence[BlackBox], before: Sequence[int]) -> tuple[str, ...]:
    """A sentence about each model that has given no finite answer to pictures since it was ``unanswered`` so often."""
    return tuple(
        f"Model {role} ({model.name}) gives NaN or infinity for {count_of(model.unanswered - known, 'picture')} that "
        "it was asked about later; on such a picture it disagrees with nobody."
        for role, model, known in zip(roles(models), models, before, strict=True)
        if model.unanswered > known
    )


def _as_many(limits: tuple[int, int], data: ImageSet) -> int:
    """The first of the limits for small images, a smaller multiple of 64 for large ones, down to the second."""
    most, fewest = limits
    return min(most, max(fewest, most * SMALL // prod(data.image_shape) // 64 * 64))


def prepare_model(model: BlackBox, data: ImageSet) -> None:
    """Let a model look at some real images, spread over the data.

    Raises:
        UserError: it does not take these images.
    """
    rows = np.linspace(0, len(data) - 1, min(len(data), _as_many(_PREPARED, data))).astype(np.int64)
    model.prepare(torch.from_numpy(data.images[rows]))


def prepare_models(models: Sequence[BlackBox], data: ImageSet, progress: Progress | None = None) -> None:
    """Let each model look at some real images, and see that they fit each other.

    From then on they are lenient: an image that is answered with NaN or infinity is a find, and ends no comparison.

    Raises:
        UserError: a model does not take these images, or the numbers of classes differ.
    """
    progress = progress or Progress()
    if math.prod(data.image_shape) > SMALL:
        free_large_arrays()
    with progress.stage("Seeing how the models take images", total=len(models)) as task:
        for model in models:
            if isinstance(model, AnswerTable):
                model.bind(data)
            model.lenient = True
            prepare_model(model, data)
            task.advance()
    if all(task_of(model) == "classification" for model in models):
        settle_background(models, data, progress)


def check_query_budgets(models: Sequence[BlackBox], data: ImageSet) -> None:
    """See that the models may be asked about what every comparison begins with. They need not be prepared.

    Raises:
        UserError: one may not.
    """
    # the last ones are asked about again after the search, to see that the model still answers as it did
    last = min(len(data), (1 + len(models)) * probed(data.image_shape))
    needed = len(data) + _REPEATS * min(len(data), _PROBED) + last
    for model in models:
        if model.answers.images_left is not None and model.answers.images_left < needed:
            raise UserError(
                f"Model {model.name} may be asked about {model.answers.images_left:,} images, but looking at the "
                f"{len(data):,} real ones before the search, and at some of them after it, takes about {needed:,}; "
                "give a larger --query-budget or fewer real images."
            )


def inspect_real_images(models: Sequence[BlackBox], data: ImageSet, *, progress: Progress) -> RealAnswers:
    """Ask all models about every real image, and see how far their answers can be relied on. They must be prepared.

    A model whose answers depend on what else is in the batch is asked one image at a time from then on.

    Raises:
        UserError: such a model may not be asked about all images again.
    """
    times = ModelTimes(models)
    answers, noises, known = asked_once(models, data, lambda: _asked(models, data, times, progress), progress)
    silent = no_answers(models, data.images, answers)
    labels = np.where(silent, _NO_LABEL, answers.labels)

    noise = max(each.remaining for each in noises)
    for one, other in combinations(range(len(models)), 2):
        apart = float(np.abs(answers.probabilities[:, one] - answers.probabilities[:, other]).max())
        if apart < _SAME_FUNCTION:
            noise = max(noise, apart)  # one model in two formats: what they differ by is rounding
    # no larger: a disagreement beyond it is worth reporting, whatever the noise
    margin = min(max(_NOISE_FACTOR * noise, _SMALLEST_MARGIN), _LARGEST_MARGIN)
    # the margin of int8 models is a matter of their own coarse steps: exact ties never count, larger gaps do

    counts = disagree(torch.from_numpy(answers.probabilities), margin).numpy()
    accuracy = errors = None
    if data.labels is not None:
        right = labels == data.labels[:, None]
        accuracy = tuple(right.mean(axis=0).tolist())
        sure = answers.probabilities.max(axis=2)
        errors = tuple(calibration_error(sure[:, index], right[:, index]) for index in range(len(models)))
    asked = list(zip(models, roles(models), noises, strict=True))
    # on what is contested in a picture models hardly ever agree, and what it is has no usual share of the pictures
    usual = asked if panel_of(models) is None else []
    smells = tuple(smells_of(model, role, data, answers.labels, index) for index, (model, role, _) in enumerate(usual))
    unsteady = tuple(_unsteady(model, role, noise, len(data)) for model, role, noise in asked)
    batched = tuple(_follows_its_batch(model, role, noise, len(data)) for model, role, noise in asked if noise.alone)
    silences = tuple(_silence(model, role, data, silent[:, index]) for index, (model, role, _) in enumerate(asked))
    silences = tuple(filter(None, silences))
    doubted = tuple(doubts(models, answers.labels, accuracy, list(chain.from_iterable(smells)))) if usual else ()
    summary = Preflight(
        images=len(data),
        agreement=float(1 - differ(labels).mean()),
        accuracy=accuracy,
        outputs=tuple(str(model.preprocessing.outputs) for model in models),
        numeric_noise=noise,
        margin=margin,
        warnings=(
            *(remark for model in models for remark in model.remarks),
            *background_remarks(models),
            *several_labels(models),
            *silences,
            *filter(None, [known.remark(data.source)]),
            *batched,
            *(_refuses(model, role, noise) for model, role, noise in asked if noise.refused),
            *filter(None, unsteady),
            *doubted,
        ),
        calibration_error=errors,
        known_scores=known.scores or None,
    )
    return RealAnswers(
        summary,
        answers,
        np.flatnonzero(counts),
        smells or ((),) * len(models),
        unsteady,
        batched,
        doubted,
        times.milliseconds(data),
        silent,
        silences,
        known,
    )


def no_answers(models: Sequence[BlackBox], images: UInt8Array, answers: KeptAnswers) -> BoolArray:
    """bool (N, M): which images the M models have no finite answer to; of all that are answered, ``answers``.

    A model is asked again about those alone of which it calls all classes alike, as it does of such an image, or in
    which, as a detector, it finds nothing.
    """
    found = answers.probabilities.max(axis=2) == answers.probabilities.min(axis=2)
    if panel_of(models) is not None:
        found = answers.probabilities[:, :, 0] == 1  # of a detector without an answer, that there is nothing
    for index, model in enumerate(models):
        rows = np.flatnonzero(found[:, index])
        if len(rows):
            found[rows, index] = model.without_answer(images[rows])
    return np.asarray(found)


def _silence(model: BlackBox, role: str, data: ImageSet, silent: BoolArray) -> str:
    """The sentence about a model that has no finite answer to some real images, bool (N,), or nothing."""
    rows = np.flatnonzero(silent).tolist()
    if not rows:
        return ""
    shown = [str(row) if data.names is None else repr(data.names[row]) for row in rows[:_NAMED]]
    more = f" and {len(rows) - _NAMED:,} more" if len(rows) > _NAMED else ""
    number, counted = ("number ", ", counted from 0") if data.names is None else ("", "")
    return (
        f"Model {role} ({model.name}) gives NaN or infinity for {len(rows):,} of {count_of(len(data), 'real image')}: "
        f"{number}{', '.join(shown)}{more}{counted}."
    )


def _asked(models: Sequence[BlackBox], data: ImageSet, times: ModelTimes, progress: Progress) -> Asked:
    """What all models say of all real images, each in the way that its answers are steady, and how much they move."""
    size = _step(models, data)
    answers, known = _ask_all(models, data, size, times, progress)
    noises = []
    with progress.stage("Seeing how steady the answers are", total=len(models)) as task:
        for index, model in enumerate(models):
            of_each = probed(data.image_shape)
            rows = probe_rows(answers.probabilities[:, index], of_each)
            drawn = np.isin(rows, drawn_rows(len(data), of_each))
            noises.append(settle_batches(model, data.images[rows], drawn))
            task.advance()
    together = answers.labels.copy()
    answers = _asked_alone(models, noises, data, answers, size, times, progress)
    moved = (answers.labels != together).sum(axis=0)
    noises = [replace(noise, relabelled=int(count)) for noise, count in zip(noises, moved, strict=True)]
    return answers, noises, known


def _step(models: Sequence[BlackBox], data: ImageSet) -> int:
    """Images that are asked about between two steps of the bar: fewer of large ones, but whole batches of a model."""
    most = _BATCH[0]
    return max(_as_many(_BATCH, data), *(min(most, model.batch_size) for model in models))


def _ask_all(
    models: Sequence[BlackBox], data: ImageSet, size: int, times: ModelTimes, progress: Progress
) -> tuple[KeptAnswers, KnownFigures]:
    """What all models say of all real images, of so many at once; where it takes long, what some say comes first.

    And what that shows where something is known of these.
    """
    parts, begun, panel = list[KeptAnswers](), time.monotonic(), panel_of(models)
    scores = None if panel is None else KnownScores(panel, data)
    order = balanced_order(data) if len(data) > size else np.arange(len(data))
    with progress.stage("Asking the models about the real images", total=len(data)) as task:
        for start in range(0, len(data), size):
            rows = np.sort(order[start : start + size])
            order[start : start + size] = rows  # a file is read from its beginning to its end
            batch = data.images[rows]
            with nullcontext() if scores is None else scores.listen(rows):
                said = [times.ask(index, batch) for index in range(len(models))]
            parts.append(KeptAnswers.of(np.stack(said, axis=1)))
            task.advance(len(batch))
            asked = start + len(batch)
            if asked < len(data) and "real" not in progress.answers and time.monotonic() - begun > _SOON:
                labels = np.concatenate([each.labels for each in parts])
                known = None if data.labels is None else data.labels[order[:asked]]
                progress.answer("real", _first_answer(labels, known, len(data)))
    figures = KnownFigures() if scores is None else scores.figures()
    return KeptAnswers.joined(parts)[np.argsort(order)], figures


def balanced_order(data: ImageSet) -> Int64Array:
    """A random order of the images in which every class is spread evenly, so that the first ones stand for all."""
    order = random_rows(len(data), len(data))
    if data.labels is None:
        return order
    labels, counts = data.labels[order], np.bincount(data.labels)
    by_class = np.argsort(labels, kind="stable")
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    turn = np.empty(len(order))
    turn[by_class] = np.arange(len(order)) - first[labels[by_class]]
    return order[np.argsort((turn + 0.5) / counts[labels], kind="stable")]


def _first_answer(said: Int64Array, known: Int64Array | None, of: int) -> str:
    """What some real images say, as long as the rest is not asked about; ``said`` is int64 (N, M), ``known`` (N,)."""
    right = [] if known is None else (said == known[:, None]).mean(axis=0).tolist()
    accuracies = [f"{role} {percent(share)}" for role, share in zip(roles(said.shape[1]), right, strict=False)]
    return (
        f"First answer, from {len(said):,} of {of:,} real images, drawn "
        f"{'at random' if known is None else 'evenly from all classes'}: {differing(differ(said))}"
        + (f"; accuracy {', '.join(accuracies)}" if accuracies else "")
        + "."
    )


def differing(apart: BoolArray) -> str:
    """On how many of N pictures models differ, for bool (N,): ``the models differ on 22% (95%: 17% to 28%)``."""
    low, high = exact_interval(int(apart.sum()), len(apart))
    return f"the models differ on {percent(apart.mean())} (95%: {percent(low)} to {percent(high)})"


def _asked_alone(
    models: Sequence[BlackBox],
    noises: Sequence[NumericNoise],
    data: ImageSet,
    answers: KeptAnswers,
    size: int,
    times: ModelTimes,
    progress: Progress,
) -> KeptAnswers:
    """The answers with those of the models that are asked one image at a time from now on."""
    alone = [index for index, noise in enumerate(noises) if noise.alone]
    for index in alone:
        _check_affordable(models[index], data)
        times.forget(index)
    if alone and answers.classes is not None:
        return _ask_all(models, data, size, times, progress)[0]  # which classes are kept depends on all models
    for index in alone:
        answers.probabilities[:, index] = _ask_alone(index, data, size, times, progress)
    return KeptAnswers(answers.probabilities, answers.classes, answers.count)


def _ask_alone(index: int, data: ImageSet, size: int, times: ModelTimes, progress: Progress) -> Float32Array:
    """float32 (N, K): what a model says of all real images, one at a time."""
    parts = []
    with progress.stage("Asking one image at a time", total=len(data)) as task:
        for start in range(0, len(data), size):
            parts.append(times.ask(index, data.images[start : start + size]))
            task.advance(len(parts[-1]))
    return np.concatenate(parts)


def _check_affordable(model: BlackBox, data: ImageSet) -> None:
    """See that a model may be asked about all real images again, one at a time."""
    needed = len(data) * (model.fixed_batch or 1)
    if model.answers.images_left is not None and model.answers.images_left < needed:
        raise UserError(
            f"Model {model.name} answers otherwise when other images are in the batch, so that it must be asked one "
            f"image at a time, and about the {len(data):,} real ones again; it may be asked about "
            f"{model.answers.images_left:,} images, and this takes {needed:,}: give a larger --query-budget."
        )


def _unsteady(model: BlackBox, role: str, noise: NumericNoise, images: int) -> str:
    if not noise.deterministic:
        return (
            f"Model {role} ({model.name}) does not answer alike twice: asked again about the same real images, a "
            f"probability moves by up to {noise.repeat:.2g}; switch off what is random in it (dropout, noise, batch "
            "statistics of training), since what it says of an image now it may not say again."
        )
    for count, of in ((noise.relabelled, images), (noise.flipped, noise.drawn)):
        if noise.alone and exact_interval(count, of)[0] > _RELABELLED:
            return (
                f"Model {role} ({model.name}) gives {count:,} of {of:,} real images ({percent(count / of)}) another "
                "label when other images are in the batch, so that what it says of them alone is not what it says in "
                "use; export it in evaluation mode, without batch statistics, and for batches of any size."
            )
    return ""


def _follows_its_batch(model: BlackBox, role: str, noise: NumericNoise, images: int) -> str:
    return (
        f"Model {role} ({model.name}) answers otherwise when other images are in the batch: a probability moves by up "
        f"to {noise.batches:.2g}, and another label get {noise.relabelled:,} of {images:,} real images alone, and "
        f"{noise.flipped:,} of {noise.drawn:,} in batches of other sizes, as with dynamic 8-bit quantization, whose "
        "scales follow the batch; it is asked one image at a time, which takes longer."
    )


def _refuses(model: BlackBox, role: str, noise: NumericNoise) -> str:
    return (
        f"Model {role} ({model.name}) fails on {noise.refused:,} images at once, and is asked about "
        f"{model.batch_size:,} at most; export it for batches of any size if more will be handed to it."
    )
