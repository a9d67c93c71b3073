"""A small run folder whose triggers are real digits, with the answers of two classifiers that err on different ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffgen.config import CompareConfig, to_dict
from diffgen.data import load
from diffgen.metrics.counting import NOT_VALID
from diffgen.runs.figures import Calibration, Preflight
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import RunResults, counted, write_results
from diffgen.runs.triggers import TriggerTable
from diffgen.tasks.classification import LabelPairs
from diffgen.types import Float32Array, Int64Array

TRIGGERS = 60
CLASSES = 10


def make_run(
    path: Path,
    *,
    triggers: int = TRIGGERS,
    latents: Float32Array | None = None,
    manifest: dict[str, object] | None = None,
    seeds: Int64Array | None = None,
    verdicts: dict[str, Any] | None = None,
) -> RunFolder:
    """A finished run: real digits, on each of which A or B says the truth, or neither.

    Args:
        path: where.
        triggers: how many.
        latents, seeds: what they were made from.
        manifest: what else it says.
        verdicts: arrays that go before the usual ones.
    """
    digits = load("digits:test")
    folder = RunFolder.create(
        path,
        config=to_dict(CompareConfig()),
        manifest={
            "status": "done",
            "version": "0.1.0",
            "created": "2026-11-21T08:34:42+00:00",
            "command": "diffgen compare a.onnx b.onnx --data digits:test",
            "data": {"source": "digits:test", "path": "digits:test", "sha256": digits.digest},
            "files": {role: {"name": role, "path": None, "sha256": role * 64} for role in "AB"},
            **(manifest or {}),
        },
        force=False,
    )
    images, truth = digits.images[:triggers], truth_of(triggers)
    said = said_of(truth)
    probabilities = np.full((triggers, 2, CLASSES), 0.01, dtype=np.float32)
    np.put_along_axis(probabilities, said[:, :, None], 0.91, axis=2)
    if triggers:
        divergence = np.ones(triggers, np.float32)
        made_from: dict[str, Any] = {"genes": latents}
        if seeds is not None:
            made_from |= {"seeds": seeds, "recipes": np.zeros(triggers, dtype="S1")}
        folder.write_part(TriggerTable.of(images, probabilities, divergence=divergence, **made_from))
    folder.write_arrays(
        "verdicts",
        {
            "scores": np.zeros((triggers, 1), np.float32),
            "confirmed": np.ones(triggers, np.int8),
            # the last one was rejected by a filter
            "rejected_by": np.where(np.arange(triggers) == triggers - 1, 0, -1),
            "cells": np.arange(triggers) % 3,
            "near_duplicate_of": np.where(np.arange(triggers) == triggers - 1, NOT_VALID, np.arange(triggers)),
            **(verdicts or {}),
        },
    )
    names = tuple(str(label) for label in range(CLASSES))
    counts = counted(folder.read_judged(), classes=CLASSES, queries=triggers, history={"queries": [triggers]})
    results = RunResults(
        queries=triggers,
        triggers=triggers,
        valid_triggers=max(triggers - 1, 0),
        **counts,
        seconds=1.0,
        interrupted=False,
        verified_single=triggers,
        verified_batch=0,
        unconfirmed=0,
        class_names=names,
        preflight=Preflight(len(digits), 0.9, None, ("logits", "logits"), 0.0, 1e-6),
        calibration=Calibration(false_alarm=0.02, reached=None, held_out=0),
        filters=(),
        real_disagreements=0,
        real_matrix=LabelPairs.of_matrix(np.zeros((CLASSES, CLASSES), np.int64)),
        gan={},
    )
    write_results(folder, results)
    return folder


def truth_of(count: int) -> Int64Array:
    """What the pictures show."""
    labels = load("digits:test").labels
    assert labels is not None
    return labels[:count]


def said_of(truth: Int64Array) -> Int64Array:
    """int64 (N, 2): in turn only A is right, only B is right, both are wrong."""
    turn = np.arange(len(truth)) % 3
    said = np.stack([truth, truth], axis=1)
    said[turn != 0, 0] = (truth[turn != 0] + 1) % CLASSES
    said[turn != 1, 1] = (truth[turn != 1] + 2) % CLASSES
    return said


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return make_run(tmp_path / "run")
