"""Whether a run that goes on asks the models that it began with: a Python function has no digest, but answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diffgen.comparison.preflight import RealAnswers
from diffgen.config import roles
from diffgen.errors import UserError
from diffgen.models import BlackBox
from diffgen.models.noise import NOTICEABLE, probe_rows
from diffgen.runs.folder import RunFolder

_NAME = "probe"
_NOISE_FACTOR = 3  # a model that does not answer alike twice may move by more than it did when that was measured


def check_same_models(models: Sequence[BlackBox], real: RealAnswers, folder: RunFolder) -> None:
    """See that models answer as those did that a run began with; of a run that begins, keep what they answer.

    Compared is the probability of the class that a model named then, on a few real images: some at random, and those
    that a model is least sure of. It may move by what rounding moves, or by what the models' own noise does.

    Args:
        models: of the run, prepared.
        real: what they say of the real images now.

    Raises:
        UserError: a model answers otherwise.
    """
    if not folder.has_arrays(_NAME):
        folder.write_arrays(_NAME, _probe(real))
        return
    before = folder.read_arrays(_NAME)
    with folder.reading():
        rows, labels, then = before["rows"], before["labels"], before["probabilities"]
        said = real.answers[rows].dense()
        now = np.take_along_axis(said, labels[:, :, None], axis=2)[:, :, 0]
        moved = np.abs(now - then)
        noise = max(float(before["noise"]), real.summary.numeric_noise)
    allowed = max(NOTICEABLE, _NOISE_FACTOR * noise)
    for index, (role, model) in enumerate(zip(roles(models), models, strict=True)):
        worst = int(moved[:, index].argmax())
        if moved[worst, index] > allowed:
            raise UserError(
                f"Model {role} ({model.name}) is not the one that the run {folder.path} was made with: it gives class "
                f"{labels[worst, index]} a probability of {now[worst, index]:.2f} on the real image {rows[worst]}, and "
                f"gave {then[worst, index]:.2f} then; give that model again, or start a new run."
            )


def _probe(real: RealAnswers) -> dict[str, object]:
    answers = real.answers
    each = [probe_rows(answers.probabilities[:, index]) for index in range(answers.probabilities.shape[1])]
    rows = np.unique(np.concatenate(each))
    return {
        "rows": rows,
        "labels": answers.labels[rows],
        "probabilities": answers.probabilities[rows].max(axis=2),
        "noise": real.summary.numeric_noise,
    }
