"""Whether models still answer as those did that a run began with: another one was given, or one drifts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffgen.comparison.plan import Prepared
from diffgen.comparison.preflight import RealAnswers
from diffgen.config import roles
from diffgen.errors import UserError
from diffgen.models import BlackBox
from diffgen.models.noise import NOTICEABLE, probe_rows, probed
from diffgen.runs.folder import RunFolder
from diffgen.types import Float32Array, UInt8Array

_NAME = "probe"
_NOISE_FACTOR = 3  # a model that does not answer alike twice may move by more than it did when that was measured


@dataclass(frozen=True)
class _Change:
    """Where a model's answers have moved most, by more than its noise.

    Attributes:
        label, then, now: the class that the model named then, and its probability then and now.
        relabelled, of: how many of the images have another label now.
    """

    row: int
    label: int
    then: float
    now: float
    relabelled: int
    of: int


def check_same_models(models: Sequence[BlackBox], real: RealAnswers, images: UInt8Array, folder: RunFolder) -> None:
    """See that models answer as those did that a run began with; of a run that begins, keep what they answer.

    From their query budgets as much is set aside as :func:`drifts` takes.

    Args:
        models: of the run, prepared.
        real: what they say of the real images now.
        images: the real ones, uint8 (N, C, H, W).

    Raises:
        UserError: a model answers otherwise.
    """
    begins = not folder.has_arrays(_NAME)
    if begins:
        folder.write_arrays(_NAME, _probe(real, images))
    then = folder.read_arrays(_NAME)
    for model in models:
        model.answers.reserve(len(then["rows"]) * (model.fixed_batch or 1))
    if begins:
        return
    with folder.reading():
        said = real.answers[then["rows"]].dense()
        changes = [_change(then, index, said[:, index], real) for index in range(len(models))]
    for role, model, change in zip(roles(models), models, changes, strict=True):
        if change is not None:
            raise UserError(
                f"Model {role} ({model.name}) is not the one that the run {folder.path} was made with: it gives class "
                f"{change.label} a probability of {change.now:.2f} on the real image {change.row}, and gave "
                f"{change.then:.2f} then; give that model again, or start a new run."
            )


def drifts(prepared: Prepared, queries: int) -> tuple[str, ...]:
    """Ask the models once more what they were asked at the beginning; of each a sentence, or "": it says the same.

    Batch statistics of training, a buffer that fills or a counter change a model with every image that it sees, so that
    no figure of a run holds for it.

    Args:
        queries: that it asked, which tells this occasion from others in the same run.
    """
    then, progress = prepared.folder.read_arrays(_NAME), prepared.progress
    images = prepared.images.images[then["rows"]]
    found = []
    with progress.stage("Asking some real images again", total=len(prepared.models)) as task:
        for index, (role, model) in enumerate(zip(roles(prepared.models), prepared.models, strict=True)):
            model.answers.reserve(0)
            left, needed = model.answers.images_left, len(images) * (model.fixed_batch or 1)
            if left is not None and left < needed:
                progress.warn(
                    f"Model {role} ({model.name}) may be asked about {left:,} images, and not about {needed:,} once "
                    "more, so that nothing says whether it still answers as at the beginning; give a larger "
                    "--query-budget."
                )
                found.append("")
                continue
            with model.answers.bypass(f"again after {queries} queries"):
                change = _change(then, index, model.predict(images), prepared.real)
            found.append("" if change is None else _drift(role, model, change))
            task.advance()
    return tuple(found)


def _drift(role: str, model: BlackBox, change: _Change) -> str:
    return (
        f"Model {role} ({model.name}) no longer answers as it did at the beginning: of {change.of:,} real images that "
        f"it was asked about again after the search, {change.relabelled:,} get another label, and the probability of "
        f"one moves from {change.then:.2f} to {change.now:.2f}; export it in evaluation mode, and look for what "
        "changes in it with each call (batch statistics of training, a buffer, a counter)."
    )


def _change(
    then: Mapping[str, np.ndarray[Any, Any]], index: int, said: Float32Array, real: RealAnswers
) -> _Change | None:
    """What has changed in the answers of a model, float32 (n, K); None: no more than rounding and its noise explain.

    Compared is the probability of the class that the model named then.
    """
    rows, labels, before = then["rows"], then["labels"][:, index], then["probabilities"][:, index]
    if len(rows) == 0:  # of each real image a model gave no finite answer
        return None
    now = np.take_along_axis(said, labels[:, None], axis=1)[:, 0]
    worst = int(np.abs(now - before).argmax())
    noise = max(float(then["noise"]), real.summary.numeric_noise)
    if abs(now[worst] - before[worst]) <= max(NOTICEABLE, _NOISE_FACTOR * noise):
        return None
    relabelled = int((said.argmax(axis=1) != labels).sum())
    return _Change(int(rows[worst]), int(labels[worst]), float(before[worst]), float(now[worst]), relabelled, len(rows))


def _probe(real: RealAnswers, images: UInt8Array) -> dict[str, object]:
    """Of a few real images, some at random and those that a model is least sure of, what each says and how surely."""
    answers, of_each = real.answers, probed(images[0].shape)
    each = [probe_rows(answers.probabilities[:, index], of_each) for index in range(answers.probabilities.shape[1])]
    rows = np.unique(np.concatenate(each))
    rows = rows[~real.unanswered[rows].any(axis=1)]
    return {
        "rows": rows,
        "labels": answers.labels[rows],
        "probabilities": answers.probabilities[rows].max(axis=2),
        "noise": real.summary.numeric_noise,
    }
