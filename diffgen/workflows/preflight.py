"""A look at both models on the real images, before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from diffgen.errors import UserError
from diffgen.models import BlackBox
from diffgen.models.noise import numeric_noise
from diffgen.report.data import Preflight
from diffgen.search.divergence import answer_margin
from diffgen.types import Float32Array, ImageSet, Int64Array, Progress

_NOISE_FACTOR = 10  # a margin this many times the noise that was seen
_SMALLEST_MARGIN = 1e-6
_SAME_FUNCTION = 1e-4  # two models that never differ by more are one model in two formats
_PREPARED = 256  # images that a model looks at first
_PROBED = 64  # images that the noise is measured on
_REPEATS = 3  # how often each of them is asked about again
_BATCH = 1024


@dataclass(frozen=True)
class RealAnswers:
    """What the models say of the real images.

    Attributes:
        summary: for the report.
        probabilities: float32 (N, 2, K).
        disagreements: int64 (n,), rows of the real images on which A and B disagree by more than the margin.
    """

    summary: Preflight
    probabilities: Float32Array
    disagreements: Int64Array


def prepare_model(model: BlackBox, data: ImageSet) -> None:
    """Let a model look at some real images, spread over the data.

    Raises:
        UserError: it does not take these images.
    """
    rows = np.linspace(0, len(data) - 1, min(len(data), _PREPARED)).astype(np.int64)
    model.prepare(torch.from_numpy(data.images[rows]))


def prepare_models(models: Sequence[BlackBox], data: ImageSet) -> None:
    """Let each model look at some real images, and see that they fit each other and the data.

    Raises:
        UserError: a model does not take these images, or the numbers of classes differ.
    """
    for model in models:
        prepare_model(model, data)
    a, b = models
    if a.num_classes != b.num_classes:
        raise UserError(
            f"Model A ({a.name}) answers with {a.num_classes} classes but model B ({b.name}) with {b.num_classes}; "
            "give two models with the same classes."
        )
    if data.labels is not None and int(data.labels.max()) >= a.num_classes:
        raise UserError(
            f"The data {data.source} has the label {int(data.labels.max())} but the models answer with only "
            f"{a.num_classes} classes (0 to {a.num_classes - 1}); give the data that the models were made for."
        )


def check_query_budgets(models: Sequence[BlackBox], data: ImageSet) -> None:
    """See that the models may be asked about what every comparison begins with. They need not be prepared.

    Raises:
        UserError: one may not.
    """
    needed = len(data) + _REPEATS * min(len(data), _PROBED)
    for model in models:
        if model.images_left is not None and model.images_left < needed:
            raise UserError(
                f"Model {model.name} may be asked about {model.images_left:,} images, but looking at the "
                f"{len(data):,} real ones before the search takes about {needed:,}; give a larger --query-budget or "
                "fewer real images."
            )


def inspect_real_images(models: Sequence[BlackBox], data: ImageSet, *, progress: Progress) -> RealAnswers:
    """Ask both models about every real image. The models must be prepared."""
    a, b = models
    parts = []
    with progress.task("Asking both models about the real images", total=len(data)) as task:
        for start in range(0, len(data), _BATCH):
            batch = data.images[start : start + _BATCH]
            parts.append(np.stack([a.predict(batch), b.predict(batch)], axis=1))
            task.advance(len(batch))
    probabilities: Float32Array = np.concatenate(parts)
    labels = probabilities.argmax(axis=2)

    probe = torch.from_numpy(data.images[:_PROBED])
    noise = max(numeric_noise(a, probe), numeric_noise(b, probe))
    apart = float(np.abs(probabilities[:, 0] - probabilities[:, 1]).max())
    if apart < _SAME_FUNCTION:
        noise = max(noise, apart)  # one model in two formats: what they differ by is rounding
    margin = max(_NOISE_FACTOR * noise, _SMALLEST_MARGIN)
    # the margin of int8 models is a matter of their own coarse steps: exact ties never count, larger gaps do

    differ = labels[:, 0] != labels[:, 1]
    sure = answer_margin(torch.from_numpy(probabilities)).numpy() > margin
    accuracy = None
    if data.labels is not None:
        right = (labels == data.labels[:, None]).mean(axis=0)
        accuracy = (float(right[0]), float(right[1]))
    summary = Preflight(
        images=len(data),
        agreement=float(1 - differ.mean()),
        accuracy=accuracy,
        outputs=(str(a.preprocessing.outputs), str(b.preprocessing.outputs)),
        numeric_noise=noise,
        margin=margin,
        warnings=(*(remark for model in models for remark in model.remarks), *_smells(models, data, labels, accuracy)),
    )
    return RealAnswers(summary, probabilities, np.flatnonzero(differ & sure))


def _smells(
    models: Sequence[BlackBox], data: ImageSet, labels: Int64Array, accuracy: tuple[float, float] | None
) -> list[str]:
    """Sentences about figures that wrong pre-processing would explain."""
    classes = models[0].num_classes
    found = []
    names_a, names_b = models[0].class_names, models[1].class_names
    if names_a != names_b and sorted(names_a) == sorted(names_b) and not models[1].class_order:
        found.append(
            "The models name the same classes in another order; map those of B onto those of A with --label-map, in "
            "which every name stands for itself."
        )
    for index, (role, model) in enumerate(zip("AB", models, strict=True)):
        fed = (
            f"diffgen hands it {str(model.preprocessing.layout).upper()} images scaled to {model.preprocessing.scale}"
            f"{' with mean and std' if model.preprocessing.mean else ', no mean or std'}"
        )
        share = np.bincount(labels[:, index], minlength=classes).max() / len(labels)
        usual = 0.0 if data.labels is None else np.bincount(data.labels).max() / len(labels)
        if accuracy is not None and accuracy[index] < 0.5:
            found.append(
                f"Model {role} ({model.name}) is right on only {accuracy[index]:.1%} of the labelled images; its "
                f"pre-processing or its order of classes probably differs ({fed})."
            )
        elif share > max(0.6, 2 * usual) and classes > 2:
            found.append(
                f"Model {role} ({model.name}) gives one and the same label to {share:.0%} of the images; its "
                f"pre-processing probably differs ({fed})."
            )
    agreement = float((labels[:, 0] == labels[:, 1]).mean())
    if not found and agreement < 0.5:
        found.append(
            f"The models agree on only {agreement:.1%} of the real images; the pre-processing or the order of classes "
            "of one of them probably differs."
        )
    if not found and accuracy is not None and abs(accuracy[0] - accuracy[1]) > 0.15:
        worse = "A" if accuracy[0] < accuracy[1] else "B"
        found.append(
            f"Model {worse} is {abs(accuracy[0] - accuracy[1]):.0%} less accurate than the other; if both were said to "
            "be equally good, its pre-processing probably differs."
        )
    return found
