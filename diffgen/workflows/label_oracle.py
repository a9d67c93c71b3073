"""Labels from reference models, for the triggers of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diffgen.comparison.black_boxes import load_spec
from diffgen.comparison.opened_run import OpenedRun
from diffgen.comparison.reference import prepare_reference
from diffgen.config import ModelSpec
from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.labels.automatic import agreed_labels, unlike_the_jury, unlike_the_known, whose_answers
from diffgen.labels.store import UNLABELLED
from diffgen.models import BlackBox
from diffgen.models.base import PREPARED
from diffgen.numerics import own_numerics
from diffgen.runs.folder import RunFolder
from diffgen.runs.triggers import TriggerTable
from diffgen.sampling import random_rows
from diffgen.tasks.classification import role_name
from diffgen.types import Float32Array, Int64Array, several
from diffgen.workflows.label import LabelResult, put, read_valid_triggers

_BATCH = 1024


@own_numerics()
def label_oracle(
    run: str | Path,
    oracles: Any,
    *,
    options: ModelSpec | None = None,
    device: str | None = None,
    trust_oracle: bool = False,
    force: bool = False,
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> LabelResult:
    """Label every valid trigger on which all of one or more reference models say the same.

    Where they contradict the known label of the real image that a picture was made from by operators, which are chosen
    so that labels stay, the picture gets that label.

    Args:
        run: the run folder.
        oracles: models, or one, as for :func:`diffgen.compare`; better ones than those under test. Where such a model
            and the run have the same names for the classes, in another order, the names count.
        options: how all of them are opened and fed, or None.
        device: where to ask, or None for the run's own device.
        trust_oracle: take the reference models' word there, too.
        force: replace labels by reference models that the run has.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: a model cannot be used, has other classes, or is one of those under test; other labels would be
            replaced.
    """
    progress, options = Progress(events, stop), options or ModelSpec()
    folder = RunFolder.open(run)
    finds = read_valid_triggers(folder)
    opened = OpenedRun(folder, device)
    some = finds.images_of(np.sort(random_rows(len(finds), PREPARED)))
    under_test = {entry["sha256"]: role for role, entry in folder.manifest["files"].items()}
    models = []
    for oracle in several(oracles):
        models.append(load_spec(oracle, options, device=opened.device, batch_size=opened.batch_size))
        prepare_reference(models[-1], some, finds.class_names, under_test, progress)
    kept = not trust_oracle and opened.config.source.family == "seeds"  # its operators keep labels
    labels, about = oracle_labels(models, finds, keeps_known=kept, progress=progress)
    counts = {"annotators": len(models), "contradicted": about["contradicted"]}
    return put(folder, finds, "oracle", labels, about, force=force, **counts)


def oracle_labels(
    models: Sequence[BlackBox], finds: TriggerTable, *, keeps_known: bool, progress: Progress
) -> tuple[Int64Array, dict[str, Any]]:
    """What reference models say of pictures, and how these labels came about.

    Args:
        finds: N pictures.
        keeps_known: the known label of the real image that a picture was made from goes before their word.

    Returns:
        int64 (N,), ``UNLABELLED`` where two of them differ; and JSON values.

    Raises:
        UserError: one gives the answers of a model under test.
    """
    parts: list[Int64Array] = []
    with progress.stage("Asking the reference models", total=len(finds)) as task:
        for images in finds.image_column.batches(_BATCH):
            answers = [model.predict(images) for model in models]
            if not parts:
                _refuse_those_under_test(models, answers, finds)
            parts.append(agreed_labels(answers))
            task.advance(len(parts[-1]))
    labels = np.concatenate(parts)
    if doubt := unlike_the_jury(labels, finds):
        progress.warn(doubt)
    contradicting = unlike_the_known(labels, finds)
    contradicted, known = int(contradicting.sum()), finds.known.seed_labels
    if contradicted and known is not None:
        progress.warn(
            f"Of {int((labels != UNLABELLED).sum()):,} pictures, the reference models give {contradicted:,} another "
            "label than the real image has that each was made from; "
            + (
                "these keep that label (--trust-oracle takes the reference models' word)."
                if keeps_known
                else "the reference models' word is taken."
            )
        )
        labels = np.where(contradicting & keeps_known, known, labels)
    about = {
        "models": [{"name": model.name, "sha256": model.digest} for model in models],
        "contradicted": contradicted,
        "known_labels_kept": keeps_known,
    }
    return labels, about


def _refuse_those_under_test(models: Sequence[BlackBox], said: Sequence[Float32Array], finds: TriggerTable) -> None:
    """A model under test is told by its answers to the first pictures, float32 (n, K), also in another format."""
    for model, answers in zip(models, said, strict=True):
        own = whose_answers(answers, finds)
        if own is not None:
            raise UserError(
                f"The reference model {model.name} gives the very answers of model {role_name(own)} of the run to "
                f"{len(answers):,} pictures, and would be its own judge; give another one."
            )
