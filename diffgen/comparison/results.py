"""Counts what a run found and writes it: verdicts, figures, and the arrays of the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from diffgen.comparison.measured_diversity import measure_diversity
from diffgen.comparison.prepared import Prepared
from diffgen.comparison.requirements import asks_filters_in_search
from diffgen.comparison.technique_run import SearchOutcome
from diffgen.data.split import DataSplit
from diffgen.filters import FilterPipeline, SsimFilter, filter_warnings
from diffgen.filters import Verdicts as FilterVerdicts
from diffgen.judging.verdicts import PICTURES_A_BEHAVIOUR
from diffgen.metrics.counting import (
    CONFIRMED_BATCH,
    CONFIRMED_SINGLE,
    UNCONFIRMED,
)
from diffgen.models import BlackBox
from diffgen.report.data import Preflight
from diffgen.runs.files import write_json
from diffgen.runs.folder import SCHEMA_VERSION
from diffgen.runs.results import counted
from diffgen.runs.triggers import TriggerTable
from diffgen.sampling import random_rows
from diffgen.sources.space import random_genes
from diffgen.tasks.classification import labels_of, pair_counts
from diffgen.types import ImageSet, Int64Array, UInt8Array

_BEHAVIOURS_SHOWN = 60
_REJECTED_SHOWN = 24
_REAL_SHOWN = 60
_SAMPLES_SHOWN = 80
_PAIRS_NAMED = 5
_HEADLINE = ("distinct_valid_triggers", "behaviours", "behaviours_at_least", "discovery", "label_pairs")


def write_results(
    prepared: Prepared, outcome: SearchOutcome, triggers: TriggerTable
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Write verdicts.npz, report.npz and results.json.

    Returns:
        the headline figures, and what a user should know of the filters, one sentence each.
    """
    folder, models, data, real = prepared.folder, prepared.models, prepared.images, prepared.real
    source, split, pipeline, config = prepared.source, prepared.split, prepared.pipeline, prepared.config
    verdicts = triggers.known
    shown = _choose_shown(triggers)
    rejected = _choose_rejected(triggers, len(pipeline.filters))
    numbers = np.concatenate([shown, rejected])
    pictures = triggers.images_of(numbers)
    folder.write_arrays("verdicts", verdicts.as_arrays())
    real_shown = np.sort(real.disagreements[random_rows(len(real.disagreements), _REAL_SHOWN)])
    folder.write_arrays(
        "report",
        {
            "shown": shown,
            "rejected": rejected,
            "nearest_real": _nearest_real(pipeline, split, pictures),
            "shown_scores": pipeline.scores(torch.from_numpy(pictures)),
            "held_out_scores": pipeline.calibration.scores,
            "samples": _samples(prepared),
            "real_rows": real_shown,
            "real_images": data.images[real_shown],
            "real_probabilities": real.probabilities[real_shown],
            "real_labels": np.full(len(real_shown), -1) if data.labels is None else data.labels[real_shown],
        },
    )
    classes = models[0].num_classes
    names = class_names(models, data)
    counted_figures = counted(triggers, classes=classes, queries=outcome.queries, history=outcome.history)
    headline = {
        "queries": outcome.queries,
        "triggers": int(triggers.confirmed.sum()),
        "valid_triggers": int(triggers.valid.sum()),
        **{name: counted_figures[name] for name in _HEADLINE},
        "seconds": round(outcome.seconds, 3),
        "saturated": outcome.saturated,
        "most_frequent": most_frequent(triggers.labels[triggers.distinct], names),
    }
    calibration, confirmed = pipeline.calibration, int(triggers.confirmed.sum())
    filtered = FilterVerdicts(
        tuple(each.name for each in pipeline.filters), calibration.thresholds, verdicts.scores, verdicts.rejected_by
    )
    warnings = filter_warnings(filtered, calibration, asked_in_search=asks_filters_in_search(config))
    summary = real.summary
    results = {
        "schema_version": SCHEMA_VERSION,
        **headline,
        **counted_figures,
        "interrupted": outcome.interrupted,
        "verified_single": int((verdicts.confirmed == CONFIRMED_SINGLE).sum()),
        "verified_batch": int((verdicts.confirmed == CONFIRMED_BATCH).sum()),
        "unconfirmed": int((verdicts.confirmed == UNCONFIRMED).sum()),
        "class_names": list(names),
        "preflight": preflight_record(summary),
        # every trigger was judged: the share is no estimate, and has no interval
        "validity": {"ratio": float(triggers.valid.sum() / confirmed)} if confirmed else None,
        "near_duplicate": config.filters.near_duplicate,
        "geometric_diversity": measure_diversity(
            prepared.cells.encoder, torch.from_numpy(triggers.images[triggers.distinct]), split.reference
        ),
        "warnings": list(warnings),
        "calibration": {
            "false_alarm": calibration.rate,
            "reached": calibration.together if pipeline.filters else None,
            "held_out": len(calibration.scores),
        },
        "filters": [
            {
                "name": each.name,
                "description": f"{each.description} {calibration.origin(index)}",
                "false_alarm": float(calibration.alone[index]),
                "threshold": each.threshold,
                "rejected": int((triggers.confirmed & (verdicts.rejected_by == index)).sum()),
            }
            for index, each in enumerate(pipeline.filters)
        ],
        "real_disagreements": len(real.disagreements),
        "real_matrix": pair_counts(labels_of(real.probabilities[real.disagreements]), classes).tolist(),
        "gan": source.facts,
        # whether the pictures were made from real ones instead of drawn by a generator
        "mutated": source.real,
    }
    write_json(folder.file("results.json"), results)
    return headline, warnings


def preflight_record(found: Preflight) -> dict[str, Any]:
    """What was seen on the real images, as JSON values."""
    return {
        "images": found.images,
        "agreement": found.agreement,
        "accuracy": None if found.accuracy is None else list(found.accuracy),
        "outputs": list(found.outputs),
        "numeric_noise": found.numeric_noise,
        "margin": found.margin,
        "warnings": list(found.warnings),
    }


def _samples(prepared: Prepared) -> UInt8Array:
    """uint8 (N, C, H, W): what the source draws at random; none where it draws no picture of the run."""
    source = prepared.source.source
    if source is None:
        return np.empty((0, *prepared.images.image_shape), dtype=np.uint8)
    genes = random_genes(source.space, _SAMPLES_SHOWN, torch.Generator().manual_seed(prepared.config.seed))
    return np.asarray(source.draw(genes).cpu().numpy())


def class_names(models: Sequence[BlackBox], data: ImageSet) -> tuple[str, ...]:
    """K names: those of the data, else those that a model brings, else numbers.

    Folders called 0, 1, 2, ... name nothing: a model that has words for them goes first.
    """
    classes = models[0].num_classes
    known = [
        tuple(names)
        for names in (data.class_names, *(model.class_names for model in models))
        if names and len(names) == classes
    ]
    in_words = (names for names in known if not all(name.isdecimal() for name in names))
    return next(in_words, known[0] if known else tuple(map(str, range(classes))))


def _choose_shown(triggers: TriggerTable) -> Int64Array:
    """Trigger numbers of the gallery: of the most frequent behaviours some pictures each, the widest apart first.

    Of a behaviour with pictures that the models were asked about again alone, only those are shown.
    """
    rows = np.flatnonzero(triggers.distinct)
    if len(rows) == 0:
        return np.empty(0, dtype=np.int64)
    alone, divergence = triggers.known.confirmed == CONFIRMED_SINGLE, triggers.divergence
    _, inverse, counts = np.unique(triggers.behaviours[rows], axis=0, return_inverse=True, return_counts=True)
    chosen: list[int] = []
    for behaviour in np.argsort(-counts, kind="stable")[:_BEHAVIOURS_SHOWN]:
        members = rows[inverse == behaviour]
        members = members[alone[members]] if alone[members].any() else members
        members = members[np.argsort(-divergence[members], kind="stable")]
        picks = np.linspace(0, len(members) - 1, min(PICTURES_A_BEHAVIOUR, len(members))).astype(np.int64)
        chosen.extend(members[picks].tolist())
    return np.asarray(chosen, dtype=np.int64)


def _choose_rejected(triggers: TriggerTable, filters: int) -> Int64Array:
    """Trigger numbers of rejected pictures to show: equally many for each filter, evenly over the run."""
    chosen: list[int] = []
    for index in range(filters):
        rows = np.flatnonzero(triggers.confirmed & (triggers.known.rejected_by == index))
        picks = np.linspace(0, len(rows) - 1, min(_REJECTED_SHOWN // max(filters, 1), len(rows))).astype(np.int64)
        chosen.extend(rows[picks].tolist() if len(rows) else [])
    return np.asarray(chosen, dtype=np.int64)


def _nearest_real(pipeline: FilterPipeline, split: DataSplit, images: UInt8Array) -> UInt8Array:
    """uint8 (N, C, H, W): the real image with the highest SSIM, for each picture that is shown."""
    ssim = next((each for each in pipeline.filters if isinstance(each, SsimFilter)), None)
    if ssim is None:
        ssim = SsimFilter()
        ssim.fit(split.reference)
    return split.reference[ssim.nearest(torch.from_numpy(images))[1]].numpy()


def most_frequent(labels: Int64Array, names: Sequence[str]) -> tuple[tuple[str | int, ...], ...]:
    """What each model says and how often, of the most frequent labels of the models, for int64 (N, M)."""
    found, counts = np.unique(labels, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_PAIRS_NAMED]
    return tuple((*(names[label] for label in found[row]), int(counts[row])) for row in order.tolist())
