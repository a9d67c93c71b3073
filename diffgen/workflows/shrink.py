"""Shrinks what a run found: for its triggers the smallest difference that makes the models disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diffgen.comparison.black_boxes import match_classes
from diffgen.comparison.filter_chain import make_pipeline, prepare_auto_encoder
from diffgen.comparison.opened_run import OpenedRun
from diffgen.comparison.preflight import prepare_models
from diffgen.comparison.requirements import needs_of
from diffgen.comparison.settle import check_same_answers
from diffgen.config import ModelSpec
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.features import cells as cell_store
from diffgen.filters import FilterPipeline
from diffgen.models import BlackBox
from diffgen.models.panel import marked, seated
from diffgen.numerics import own_numerics
from diffgen.parts import Extensions
from diffgen.report.from_run import write_report
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import RunLock
from diffgen.runs.results import read_finished
from diffgen.runs.triggers import TriggerTable
from diffgen.search.shrink import Steps, smallest_steps
from diffgen.sources.base import FamilyContext, Source
from diffgen.tasks.classification import differ, disagree
from diffgen.types import Float32Array, ImageSet, Result, UInt8Array, several
from diffgen.workflows.replay import rows_of

LIMIT = 24  # triggers that are shrunk unless the user says otherwise
_ROUNDING = 1.5  # root mean square grey levels: the last digits of a network depend on what is drawn at once


@dataclass(frozen=True)
class ShrinkResult(Result):
    """What came of it.

    Attributes:
        run: the run folder.
        tried: triggers that were led toward agreement.
        shrunk: those for which a pair was found that holds when it is asked about one picture at a time, and of which
            no filter rejects either picture.
        before, after: median root mean square difference, in grey levels, between trigger and agreeing picture: the
            nearest one at the beginning, the pair at the end; None when nothing was shrunk.
        report: where the pairs are shown.
    """

    run: str
    tried: int
    shrunk: int
    before: float | None
    after: float | None
    report: str


@own_numerics()
def shrink(
    run: str | Path,
    *,
    limit: int = LIMIT,
    triggers: int | Sequence[int] = (),
    models: Any = (),
    data: Any = None,
    technique: Any = None,
    generator: Any = None,
    filters: Sequence[Any] = (),
    device: str | None = None,
    options: Sequence[ModelSpec] = (),
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> ShrinkResult:
    """Find the smallest step that still triggers for some triggers of a run, and add the pairs to its report.

    The triggers are those of the report, one of each behaviour first. Both pictures of a pair pass the run's validity
    filters. The pairs are kept in shrunk.npz, in place of those from before; where triggers are named, beside them.

    Args:
        run: the run folder.
        limit: most triggers, where none are named.
        triggers: numbers of those to shrink, or one, or none: some of the report.
        models: those of the run where it was given objects, or none: the run's.
        technique, generator, filters: the objects that the run was given, if any.
        data: the real images, where the run was given them in memory or they have moved; None for the run's own.
        device: where to compute, or None for the run's own device.
        options: allows again what runs code, for each model in turn; or none: nothing of the kind.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: no finished run there, its models, data or GAN are gone or have changed, its triggers have no
            latent vectors, or it reported no such trigger.
    """
    progress = Progress(events, stop)
    if limit < 1:
        raise UserError(f"The limit is {limit}; give a number of triggers from 1.")
    with RunLock(RunFolder.open(run).path):
        folder = RunFolder.open(run)
        own = Extensions.among(technique, generator, filters).of_run(folder.manifest, folder.path, "shrink")
        with own.in_use():
            given = _Given(several(models), data, options)
            return _shrink(folder, given, limit, several(triggers), device, progress)


@dataclass(frozen=True)
class _Given:
    """What the caller gives in place of what the run names; see :func:`shrink`."""

    models: Sequence[Any]
    data: Any
    options: Sequence[ModelSpec]


def _shrink(
    folder: RunFolder,
    given: _Given,
    limit: int,
    named: Sequence[int],
    device: str | None,
    progress: Progress,
) -> ShrinkResult:
    run = OpenedRun(folder, device)
    with folder.reading():
        margin = read_finished(folder).preflight.margin
        triggers = folder.read_judged()
        chosen = _named(folder, triggers, named) if named else _choose(folder, triggers, limit)
        before = _of_others(folder, chosen) if named else {}
    if "source" not in needs_of(run.config) or (len(triggers) and triggers.genes is None):
        raise UserError(
            f"The triggers of {folder.path} were made without latent vectors ({run.config.technique}), so there is no "
            "way to lead them back; shrink a run of another technique."
        )
    models = run.models(given.models, options=given.options)
    images = run.data(given.data, purpose="shrink it", progress=progress)
    check_same_answers(run.config, folder, images.image_shape)
    prepare_models(models, images, progress)
    models = seated(models, run.config.task)
    match_classes(models, (), images.class_names)
    source, pipeline = _source_and_filters(run, images, progress)
    check_drawn_again(source, chosen, batch_size=run.batch_size, path=folder.path)
    judge = _Judge(models, pipeline, margin)
    genes = torch.empty(0, source.space.length) if chosen.genes is None else torch.from_numpy(chosen.genes)
    steps = smallest_steps(genes, source, judge, seed=run.config.seed, batch_size=run.batch_size, progress=progress)
    pairs = _pairs(chosen, steps, judge)
    folder.write_arrays(
        "shrunk", {name: np.concatenate([before.get(name, new[:0]), new]) for name, new in pairs.items()}
    )
    page = write_report(folder, triggers)
    shrunk = len(pairs["numbers"])
    return ShrinkResult(
        run=str(folder.path),
        tried=len(chosen),
        shrunk=shrunk,
        before=float(np.median(pairs["before"])) if shrunk else None,
        after=float(np.median(pairs["difference"])) if shrunk else None,
        report=str(page),
    )


def _source_and_filters(run: OpenedRun, images: ImageSet, progress: Progress) -> tuple[Source, FilterPipeline]:
    """What draws pictures from genes, and the validity filters, both as the run had them."""
    encoder = cell_store.prepare(images, device=run.device, progress=progress).encoder
    split = DataSplit(images, run.config.split)
    recogniser = run.recogniser(split, progress)
    network = partial(prepare_auto_encoder, split, run.config, device=run.device, progress=progress)
    made = run.source(split, FamilyContext(encoder, run.device, progress, recogniser, network))
    assert made.source is not None
    pipeline = make_pipeline(
        split,
        made.scorer,
        run.config,
        recogniser=recogniser,
        batch_size=run.batch_size,
        device=run.device,
        progress=progress,
    )
    return made.source, pipeline


def check_drawn_again(source: Source, chosen: TriggerTable, *, batch_size: int, path: Path) -> None:
    """See that a source draws the triggers that it drew in the run. UserError if it draws other pictures."""
    if chosen.genes is None or len(chosen) == 0:
        return
    drawn = [source.draw(genes).cpu().numpy() for genes in torch.from_numpy(chosen.genes).split(batch_size)]
    if _difference(np.concatenate(drawn), chosen.images).max() > _ROUNDING:
        raise UserError(
            f"What drew the pictures of the run {path} draws others now (a network was trained anew, or another "
            "version of diffgen made the run); run the comparison again."
        )


@dataclass(frozen=True)
class _Judge:
    """Says whether the models agree or disagree on pictures that look real.

    Attributes:
        models: all of the run, prepared.
        margin: smallest gap of the two highest probabilities that counts as an answer.
    """

    models: Sequence[BlackBox]
    pipeline: FilterPipeline
    margin: float

    def __call__(self, pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """bool (N,) twice, for uint8 (N, C, H, W): agreed upon, and disagreed upon; neither where a filter rejects."""
        answers = torch.stack([model.predict(pictures) for model in self.models], dim=1)
        agree, apart = _agree(answers).cpu(), disagree(answers, self.margin).cpu()
        rows = (agree | apart).nonzero().squeeze(1)
        accepted = torch.zeros(len(pictures), dtype=torch.bool)
        accepted[rows] = torch.from_numpy(self.pipeline.accepts(pictures[rows.to(pictures.device)].cpu()))
        return agree & accepted, apart & accepted


def _pairs(chosen: TriggerTable, steps: Steps, judge: _Judge) -> dict[str, Any]:
    """The arrays of shrunk.npz: the pairs that hold when the models are asked about one picture at a time."""
    agreeing, triggering = (_one_by_one(judge.models, each) for each in (steps.agreeing, steps.trigger))
    holds = steps.found & _agree(torch.from_numpy(agreeing)).numpy()
    holds &= disagree(torch.from_numpy(triggering), judge.margin).numpy()
    for pictures in (steps.agreeing, steps.trigger):
        holds &= judge.pipeline.accepts(torch.from_numpy(pictures))
    start = chosen.images if len(chosen) else steps.trigger
    before, after = _difference(start, steps.first_agreeing), _difference(steps.trigger, steps.agreeing)
    return {
        "numbers": chosen.numbers[holds],
        "agreeing": steps.agreeing[holds],
        "agreeing_latents": steps.agreeing_genes[holds],
        "agreeing_probabilities": agreeing[holds],
        "triggers": steps.trigger[holds],
        "trigger_latents": steps.trigger_genes[holds],
        "trigger_probabilities": triggering[holds],
        "before": before[holds],
        "difference": after[holds],
        **marked(judge.models, steps.agreeing[holds], "agreeing_marks"),
        **marked(judge.models, steps.trigger[holds], "trigger_marks"),
    }


def _of_others(folder: RunFolder, tried: TriggerTable) -> dict[str, Any]:
    """The pairs from before of other triggers; of those that are tried the new try counts, also if it finds nothing."""
    if not folder.has_arrays("shrunk"):
        return {}
    before = folder.read_arrays("shrunk")
    kept = ~np.isin(before["numbers"], tried.numbers)
    return {name: rows[kept] for name, rows in before.items()}


def _named(folder: RunFolder, triggers: TriggerTable, numbers: Sequence[int]) -> TriggerTable:
    reported = triggers[triggers.confirmed]
    return reported[rows_of(numbers, reported.numbers, folder.path)]


def _choose(folder: RunFolder, triggers: TriggerTable, limit: int) -> TriggerTable:
    """The triggers in the report, the first of every behaviour before the second of any."""
    shown = triggers[folder.read_arrays("report")["shown"]]
    turn: dict[tuple[int, ...], int] = {}
    turns = np.empty(len(shown), dtype=np.int64)
    for row, key in enumerate(map(tuple, shown.behaviours.tolist())):
        turns[row] = turn[key] = turn.get(key, 0) + 1
    return shown[np.argsort(turns, kind="stable")[:limit]]


def _agree(probabilities: torch.Tensor) -> torch.Tensor:
    agree: torch.Tensor = ~differ(probabilities.argmax(dim=2))
    return agree


def _one_by_one(models: Sequence[BlackBox], images: UInt8Array) -> Float32Array:
    """float32 (N, M, K): the answers to one picture at a time, as a replay asks."""
    answers = [
        torch.stack([model.predict(torch.from_numpy(image[None])) for model in models], dim=1) for image in images
    ]
    return torch.cat(answers).cpu().numpy() if answers else np.empty((0, len(models), 2), dtype=np.float32)


def _difference(a: UInt8Array, b: UInt8Array) -> Float32Array:
    """float32 (N,): root mean square difference of pairs, grey levels."""
    squares = (a.astype(np.float32) - b.astype(np.float32)) ** 2
    return np.sqrt(squares.reshape(len(a), -1).mean(axis=1)) if len(a) else np.empty(0, dtype=np.float32)
