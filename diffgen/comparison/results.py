"""Counts what a run found and writes it: verdicts, figures, and the pictures and arrays of the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.comparison.plan import Prepared
from diffgen.comparison.requirements import asks_filters_in_search
from diffgen.comparison.technique_run import SearchOutcome
from diffgen.comparison.verdicts import choose_shown
from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features.base import FeatureExtractor
from diffgen.filters import FilterPipeline, FilterVerdicts, SsimFilter, filter_warnings
from diffgen.metrics.counting import CONFIRMED_BATCH, CONFIRMED_SINGLE, UNCONFIRMED
from diffgen.metrics.geometric_diversity import DRAWS, geometric_diversity, over_equal_subsets
from diffgen.metrics.pixel_entropy import levels_entropy, levels_of
from diffgen.models import BlackBox
from diffgen.models.panel import marked
from diffgen.runs.figures import Calibration, FilterFigures
from diffgen.runs.images import ImageColumn
from diffgen.runs.results import RunResults, counted, many_figures, verdicts_rest_on, write_results
from diffgen.runs.triggers import TriggerTable
from diffgen.sampling import random_rows
from diffgen.sources.space import random_genes
from diffgen.tasks.classification import FEWEST, LabelPairs
from diffgen.types import ImageSet, Int64Array, UInt8Array

_PAIRS_NAMED = 5
_KNOWN_BY_NUMBER = 30  # classes


def write_outcome(prepared: Prepared, outcome: SearchOutcome, triggers: TriggerTable) -> RunResults:
    """Write verdicts.npz, report.npz and results.json; returns the figures.

    Args:
        triggers: what it found, with verdicts.
    """
    prepared.folder.write_arrays("verdicts", triggers.known.as_arrays())
    write_shown(prepared, triggers)
    results = _figures(prepared, outcome, triggers)
    write_results(prepared.folder, results)
    return results


def _figures(prepared: Prepared, outcome: SearchOutcome, triggers: TriggerTable) -> RunResults:
    """Count among judged triggers."""
    real, source, pipeline, config = prepared.real, prepared.source, prepared.pipeline, prepared.config
    classes, names = prepared.models[0].num_classes, class_names(prepared.models, prepared.images)
    confirmed, verdicts = int(triggers.confirmed.sum()), triggers.known
    calibration, apart = pipeline.calibration, real.answers.labels[real.disagreements]
    distinct = triggers.image_column.chosen(np.flatnonzero(triggers.distinct))
    reference = ImageColumn.of(prepared.split.reference.numpy())
    filtered = FilterVerdicts(
        tuple(each.name for each in pipeline.filters), calibration.thresholds, verdicts.scores, verdicts.rejected_by
    )
    return RunResults(
        queries=outcome.queries,
        triggers=confirmed,
        valid_triggers=int(triggers.valid.sum()),
        **counted(triggers, classes=classes, queries=outcome.queries, history=outcome.history),
        seconds=round(outcome.seconds, 3),
        saturated=outcome.saturated,
        most_frequent=most_frequent(triggers.labels[triggers.distinct], names),
        interrupted=outcome.interrupted,
        verified_single=int((verdicts.confirmed == CONFIRMED_SINGLE).sum()),
        verified_batch=int((verdicts.confirmed == CONFIRMED_BATCH).sum()),
        unconfirmed=int((verdicts.confirmed == UNCONFIRMED).sum()),
        class_names=names,
        preflight=real.summary,
        validity=float(triggers.valid.sum() / confirmed) if confirmed else None,
        near_duplicate=config.filters.near_duplicate,
        geometric_diversity=measure_diversity(prepared.cells.encoder, distinct, reference),
        shannon_diversity=measure_entropy(distinct, reference),
        warnings=tuple(filter_warnings(filtered, calibration, asked_in_search=asks_filters_in_search(config))),
        calibration=Calibration(
            false_alarm=calibration.rate,
            reached=calibration.together if pipeline.filters else None,
            held_out=len(calibration.scores),
        ),
        filters=_filter_figures(pipeline, triggers),
        real_disagreements=len(real.disagreements),
        real_matrix=LabelPairs.of(apart, classes),
        gan=source.facts,
        mutated=source.real,
        jury=prepared.jury.figures,
        verdicts_rest_on=verdicts_rest_on(triggers, prepared.jury.figures, boxes=real.summary.outputs[0] == "boxes")
        if triggers.has_jury
        else None,
        no_jury=prepared.jury.missing,
        milliseconds=real.milliseconds,
        answers={
            stage: prepared.progress.answers[stage].text
            for stage in ("real", "variations")
            if stage in prepared.progress.answers
        },
        many=many_figures(triggers, apart, outcome.spared) if len(prepared.models) >= FEWEST else None,
    )


def _filter_figures(pipeline: FilterPipeline, triggers: TriggerTable) -> tuple[FilterFigures, ...]:
    calibration = pipeline.calibration
    return tuple(
        FilterFigures(
            name=each.name,
            description=f"{each.description} {calibration.origin(index)}",
            false_alarm=float(calibration.alone[index]),
            threshold=each.threshold,
            rejected=int((triggers.confirmed & (triggers.known.rejected_by == index)).sum()),
        )
        for index, each in enumerate(pipeline.filters)
    )


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


def announce_numbers(models: Sequence[BlackBox], data: ImageSet, progress: Progress) -> None:
    """Say how to give names to classes that have none, where they are too many to be known by their numbers."""
    names = class_names(models, data)
    if len(names) > _KNOWN_BY_NUMBER and all(name.isdecimal() for name in names):
        progress.say(f"The {len(names):,} classes go by their numbers; --class-names FILE gives them names.")


def most_frequent(labels: Int64Array, names: Sequence[str]) -> tuple[tuple[str | int, ...], ...]:
    """What each model says and how often, of the most frequent labels of the models, for int64 (N, M)."""
    found, counts = np.unique(labels, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_PAIRS_NAMED]
    return tuple((*(names[label] for label in found[row]), int(counts[row])) for row in order.tolist())


_REJECTED_SHOWN = 24
_REAL_SHOWN = 60
_SAMPLES_SHOWN = 80


def write_shown(prepared: Prepared, triggers: TriggerTable) -> None:
    """Write report.npz: the numbers of the triggers that are shown, and the real and random pictures beside them."""
    data, real, pipeline = prepared.images, prepared.real, prepared.pipeline
    shown = choose_shown(triggers, clearest=prepared.models[0].detects)
    rejected = _choose_rejected(triggers, len(pipeline.filters))
    pictures = triggers.images_of(np.concatenate([shown, rejected]))
    real_shown = np.sort(real.disagreements[random_rows(len(real.disagreements), _REAL_SHOWN)])
    prepared.folder.write_arrays(
        "report",
        {
            "shown": shown,
            "rejected": rejected,
            "nearest_real": _nearest_real(pipeline, prepared.split, pictures),
            "shown_scores": pipeline.scores(torch.from_numpy(pictures)),
            "held_out_scores": pipeline.calibration.scores,
            "samples": _samples(prepared),
            "real_rows": real_shown,
            "real_images": data.images[real_shown],
            "real_probabilities": real.answers[real_shown].dense(),
            "real_labels": np.full(len(real_shown), -1) if data.labels is None else data.labels[real_shown],
            **marked(prepared.models, pictures),
            **marked(prepared.models, data.images[real_shown], "real_marks"),
        },
    )


def _samples(prepared: Prepared) -> UInt8Array:
    """uint8 (N, C, H, W): what the source draws at random; none where it draws no picture of the run."""
    source = prepared.source.source
    if source is None:
        return np.empty((0, *prepared.images.image_shape), dtype=np.uint8)
    genes = random_genes(source.space, _SAMPLES_SHOWN, torch.Generator().manual_seed(prepared.config.seed))
    return np.asarray(source.draw(genes).cpu().numpy())


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
    if len(images) == 0:
        return images
    ssim = next((each for each in pipeline.filters if isinstance(each, SsimFilter)), None)
    if ssim is None:
        ssim = SsimFilter()
        ssim.fit(split.reference)
    return split.reference[ssim.nearest(torch.from_numpy(images))[1]].numpy()


SUBSET = 50  # pictures of a draw; published are 1,000, but more than the encoder has features (64) span no volume
_ENCODED = 2_000  # encode at most this many random pictures; the 30 draws of 50 need 1,500


def measure_diversity(encoder: FeatureExtractor, found: ImageColumn, real: ImageColumn) -> dict[str, Any] | None:
    """Geometric diversity of found pictures and of real images, each over random subsets of one size.

    Features are brought to length 1: a picture is then told from others by what it shows, not by how much ink it has,
    and the value is at most 0, which mutually orthogonal features have.

    Args:
        found: without near-duplicates, of which two would decide over a volume alone.
        real: of the same shape.

    Returns:
        JSON values: name of the features, size and number of the draws, and mean and standard deviation over them for
        ``found`` and ``real``; None for fewer than ``SUBSET`` pictures of either, or where a draw has no volume.
    """
    if min(len(found), len(real)) < SUBSET:
        return None
    values = over_equal_subsets(
        [_directions(encoder, each) for each in (found, real)], geometric_diversity, size=SUBSET
    )
    if not np.isfinite(values).all():
        return None
    return {"features": encoder.name, **_spread(values)}


def measure_entropy(found: ImageColumn, real: ImageColumn) -> dict[str, Any] | None:
    """Shannon diversity of the same pictures, as :func:`measure_diversity` gives it, in nats; without ``features``."""
    if min(len(found), len(real)) < SUBSET:
        return None
    counts = [np.concatenate([levels_of(batch) for batch in each.batches()]) for each in (found, real)]
    return _spread(over_equal_subsets(counts, levels_entropy, size=SUBSET))


def _spread(values: NDArray[np.float64]) -> dict[str, Any]:
    figures = {
        name: {"mean": round(float(each.mean()), 3), "deviation": round(float(each.std(ddof=1)), 3)}
        for name, each in zip(("found", "real"), values, strict=True)
    }
    return {"size": SUBSET, "draws": DRAWS, **figures}


def _directions(encoder: FeatureExtractor, images: ImageColumn) -> NDArray[np.float64]:
    """float64 (N or fewer, d): features of length 1 of images drawn at random."""
    drawn = images.chosen(random_rows(len(images), _ENCODED))
    features = torch.cat([encoder.encode(torch.from_numpy(batch)) for batch in drawn.batches()]).double()
    return np.asarray(torch.nn.functional.normalize(features, dim=1).cpu().numpy())
