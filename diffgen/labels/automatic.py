"""Labels without a person: from reference models that agree, or from the class a generator was asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diffgen.errors import UserError
from diffgen.labels.store import UNLABELLED
from diffgen.runs.triggers import UNKNOWN_LABEL, TriggerTable
from diffgen.sources.space import LatentLayout
from diffgen.tasks.kept_answers import KeptAnswers
from diffgen.types import BoolArray, Float32Array, Int64Array
from diffgen.wording import percent

_TELLING = 10  # pictures
_FEW = 0.5  # share of the pictures that the jury recognises; it is right on nearly all of these
_ALIKE = 1e-4  # in every probability; the same weights in TorchScript and ONNX differ by less


def agreed_labels(answers: Sequence[Float32Array]) -> Int64Array:
    """What reference models say of pictures where all of them say the same.

    Args:
        answers: float32 (N, K) of each, with the same classes in the same order.

    Returns:
        int64 (N,), ``UNLABELLED`` where two of them differ.
    """
    said = np.stack([each.argmax(axis=1) for each in answers])
    return np.where((said == said[0]).all(axis=0), said[0], UNLABELLED).astype(np.int64)


def whose_answers(answers: Float32Array, known: TriggerTable | KeptAnswers) -> int | None:
    """Which model of a run gives these answers, whatever file it came from.

    Args:
        answers: float32 (n, K), to the first n pictures.
        known: of n pictures or more, what the models of the run said.

    Returns:
        The number of the model; None: none of them, or too few pictures to tell, of which two models may be as sure.
    """
    count = len(answers)
    if count < _TELLING:
        return None
    if known.classes is not None:
        answers = np.take_along_axis(answers, known.classes[:count], axis=1)
    apart = np.abs(known.probabilities[:count] - answers[:, None]).max(axis=(0, 2))
    closest = int(apart.argmin())
    return closest if apart[closest] < _ALIKE else None


def unlike_the_known(labels: Int64Array, finds: TriggerTable) -> BoolArray:
    """bool (N,): the label is another than the known one of the real image that the picture was made from.

    Args:
        labels: int64 (N,), what :func:`agreed_labels` gave.
    """
    known = finds.known.seed_labels
    if known is None:
        return np.zeros(len(labels), dtype=np.bool_)
    return np.asarray((labels != UNLABELLED) & (known != UNKNOWN_LABEL) & (labels != known))


def unlike_the_jury(labels: Int64Array, finds: TriggerTable) -> str:
    """What is to be thought of reference models that name few pictures as the jury does; empty where they are fine.

    Args:
        labels: int64 (N,), what :func:`agreed_labels` gave.
    """
    named = finds.known.named
    looked = finds.recognised & (labels != UNLABELLED)
    of = int(looked.sum())
    if named is None or of < _TELLING:
        return ""
    share = float((labels == named)[looked].mean())
    if share >= _FEW:
        return ""
    return (
        f"Of {of:,} pictures that the jury recognises, the reference labels name only {percent(share)} as it does; the "
        "pre-processing of a reference model or its order of classes probably differs ('diffgen inspect MODEL --data "
        "D' finds out what it wants)."
    )


def intended_labels(latents: Float32Array | None, layout: LatentLayout | None, classes: int) -> Int64Array:
    """The class that a conditional generator was asked for: the last value of its latent vectors.

    Args:
        latents: float32 (N, values), or None when the technique stores none.
        layout: what these values are, or None likewise.
        classes: K, of the models.

    Raises:
        UserError: the rows hold no class, or are not as the layout says.
    """
    if latents is None or layout is None:
        raise UserError(
            "No generator drew the pictures of this run, so no class was intended; label the triggers with --export "
            "and --import, or with --oracle."
        )
    if layout.classes == 0:
        raise UserError(
            "The generator of this run was not asked for a class, so no class was intended; label the triggers with "
            "--export and --import, or with --oracle."
        )
    if latents.shape[1:] != (layout.length,) or not np.isfinite(latents[:, -1]).all():
        raise UserError(
            f"The latent vectors of this run are not the {layout.length} values of its generator; the run folder is "
            "damaged."
        )
    labels = np.rint(latents[:, -1]).astype(np.int64)
    if layout.class_labels is not None and len(labels) and labels.min() >= 0 and labels.max() < layout.classes:
        labels = np.asarray(layout.class_labels, dtype=np.int64)[labels]
    if len(labels) and not (labels.min() >= 0 and labels.max() < classes):
        raise UserError(
            f"The triggers of this run are said to be of class {labels.min()} to {labels.max()}, but the models have "
            f"{classes} classes; the run folder is damaged."
        )
    return labels
