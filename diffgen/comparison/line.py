"""From a pair of models and real images to a report: preflight -> GAN -> search -> filters -> report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any

from diffgen.comparison.auto_encoder import prepare_auto_encoder
from diffgen.comparison.black_boxes import resume_command
from diffgen.comparison.classes import LABELS_NOT_USED, NO_JURY_WITHOUT_LABELS
from diffgen.comparison.device import resolve_batch_size
from diffgen.comparison.filter_chain import make_pipeline
from diffgen.comparison.image_source import prepare_source
from diffgen.comparison.jury import PreparedJury, RealLabels, announce, prepare_jury, why_no_jury
from diffgen.comparison.operator_curves import write_operator_curves
from diffgen.comparison.preflight import RealAnswers, inspect_real_images, silences_since
from diffgen.comparison.prepared import Given, Prepared
from diffgen.comparison.requirements import check_jury, check_seeds, filter_names, needs_of, uses_auto_encoder
from diffgen.comparison.results import write_outcome
from diffgen.comparison.same_models import check_same_models, drifts
from diffgen.comparison.technique_run import real_images, run_search, try_out_technique
from diffgen.config import CompareConfig, replace, roles
from diffgen.data.split import DataSplit
from diffgen.features import cells as cell_store
from diffgen.features.cells import Cells
from diffgen.judging.verdicts import judge_triggers
from diffgen.models import BlackBox
from diffgen.models.loading import file_digest
from diffgen.runs.folder import RunFolder
from diffgen.runs.many import ManyFigures
from diffgen.runs.results import RunResults
from diffgen.sampling import LARGE_BYTES
from diffgen.side_by_side import SideBySide
from diffgen.sources.base import FamilyContext, ImageSource
from diffgen.tasks.classification import listed
from diffgen.wording import percent


@dataclass(frozen=True)
class CompareResult:
    """The figures of a comparison; everything else is in the run folder.

    Attributes:
        run: the run folder.
        queries: images both models were asked about during the search.
        triggers: distinct pictures on which the models disagree.
        valid_triggers: those that passed every filter.
        distinct_valid_triggers: those without near-duplicates; what the headline counts.
        behaviours: label pair x cell, among the distinct valid triggers; see ``diffgen.metrics.counting``.
        behaviours_of_agreement: those of them that were met on a picture that does not begin with a real image on which
            the models disagree already, or None: all pictures were drawn.
        behaviours_at_least: lower bound of how many there are, found or not; see ``diffgen.metrics.richness``.
        discovery: how many new behaviours the last part of the search met: "queries", its length, "new_behaviours" and
            "per_1000_queries".
        label_pairs: different ordered label pairs among the distinct valid triggers.
        seconds: length of the search.
        saturated: it ended because nothing new was found any more.
        most_frequent: what A says, what B says (by name) and the number of distinct valid triggers, of the pairs that
            have the most.
        interrupted: the user ended the search before its budget was used up.
        recognised_triggers, recognised_distinct_triggers, recognised_behaviours: the same figures for the valid
            triggers that the jury can name, or None: there is no jury.
        faults: who is wrong about these; see :class:`diffgen.runs.results.RunResults`.
        verdicts_rest_on: how many of the recognised pictures are named by what; see
            :class:`diffgen.runs.results.RunResults`.
        no_jury: why nobody could be named wrong, as one sentence, or nothing: there is a jury.
        flips_per_1000: on how many of 1,000 real images not all models say the same.
        accuracy: of each model on the labelled real images, 0..1, or None.
        calibration_error: expected calibration error of each model, 0..1, or None.
        milliseconds: that one image takes each model, in batches; None where a server answers.
        many: of three models or more, who stands alone and which two differ most; see
            :class:`diffgen.runs.many.ManyFigures`.
        go_on: what goes on with a search that was interrupted, or empty: a command, or a call in Python where the run
            was given objects.
        doubts: what was said of the models on the real images that wrong pre-processing, or another order of classes,
            would explain; one sentence each.
    """

    run: str
    queries: int
    triggers: int
    valid_triggers: int
    distinct_valid_triggers: int
    behaviours: int
    behaviours_at_least: int
    discovery: Mapping[str, float]
    label_pairs: int
    seconds: float
    saturated: bool = False
    most_frequent: tuple[tuple[str, str, int], ...] = ()
    interrupted: bool = False
    behaviours_of_agreement: int | None = None
    recognised_triggers: int | None = None
    recognised_distinct_triggers: int | None = None
    recognised_behaviours: int | None = None
    faults: Mapping[str, Mapping[str, int]] | None = None
    verdicts_rest_on: Mapping[str, int] | None = None
    no_jury: str = ""
    flips_per_1000: float = 0.0
    accuracy: tuple[float, ...] | None = None
    calibration_error: tuple[float, ...] | None = None
    milliseconds: tuple[float | None, ...] | None = field(default=None, compare=False)
    many: ManyFigures | None = None
    go_on: str = field(default="", compare=False)
    doubts: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, folder: RunFolder, results: RunResults, go_on: str = "", doubts: tuple[str, ...] = ()) -> CompareResult:
        """The figures of a run whose search came to its end."""
        real = {name: getattr(results.preflight, name) for name in ("flips_per_1000", "accuracy", "calibration_error")}
        own = [each.name for each in fields(cls) if each.name not in ("run", "go_on", "doubts", *real)]
        figures = {**real, **{name: getattr(results, name) for name in own}}
        return cls(
            run=str(folder.path), go_on=go_on, doubts=doubts, **{**figures, "discovery": results.discovery.as_dict()}
        )

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON values, without ``most_frequent``, ``interrupted`` and ``go_on``."""
        values = asdict(self)
        del values["most_frequent"], values["interrupted"], values["go_on"]
        if self.many is None:
            del values["many"]
        return values


def attach_answers(models: Sequence[BlackBox], folder: RunFolder) -> None:
    """Let a run that is resumed pay for no image twice."""
    for role, model in zip(roles(models), models, strict=True):
        model.answers.attach(folder.answers_file(role))


@contextmanager
def before_the_search() -> Iterator[None]:
    """A part of the work that an interruption leaves nothing of to go on with; it is told to say so."""
    try:
        yield
    except KeyboardInterrupt as error:
        error.add_note("the search had not begun; start it again with the same command (a trained GAN is kept)")
        raise


def search_and_report(given: Given, open_folder: Callable[[CompareConfig], RunFolder]) -> CompareResult:
    """Everything that a new run and a resumed one have in common.

    Args:
        given: the models are prepared.
        open_folder: makes the run folder, or gives that of the run, for the settings with everything in them that was
            found out; called when all is ready for the search.

    Raises:
        UserError, RunError: see :func:`diffgen.workflows.compare.compare`.
    """
    with before_the_search():
        looked = _look_at_data(given)
        given = replace(given, config=looked.config)
        try_out_technique(given, looked.source, looked.real, looked.cells)
        folder = open_folder(looked.config)
    try:
        return _search_and_judge(_prepare(given, folder, looked))
    except (KeyboardInterrupt, Exception) as error:
        again = resume_command(folder, given.config)
        error.add_note(f"what was found is kept; go on with '{again}'")
        raise


@dataclass(frozen=True)
class _Looked:
    """What is there before the run folder is; see :class:`diffgen.comparison.prepared.Prepared`."""

    config: CompareConfig
    real: RealAnswers
    split: DataSplit
    source: ImageSource
    cells: Cells
    jury: PreparedJury
    context: FamilyContext


def prepare_again(given: Given, folder: RunFolder, real: RealAnswers) -> Prepared:
    """What a search works with, for a run that another process has prepared before; writes nothing but the cache.

    Args:
        given: the models are prepared.
        folder: of the run.
        real: what the models say of the real images.

    Raises:
        UserError: something that the run was prepared with is no longer there.
    """
    return _assembled(given, folder, _look_at_data(given, real))


def _look_at_data(given: Given, real: RealAnswers | None = None) -> _Looked:
    """Everything before the search: the models on the real images, the jury, the source, the cells."""
    images, config, device, progress = given.images, given.config, given.device, given.progress
    unknown, split = config.data_labels == "ignore", DataSplit(images, config.split)

    def settled(jury: PreparedJury) -> PreparedJury:
        progress.say(jury.missing or str(jury.figures))
        check_jury(config, jury.reason)
        given.hooks.jury_ready(jury)
        return jury

    # what the models agree on may be as far from the truth as such labels: these are pictures of something else
    missing = NO_JURY_WITHOUT_LABELS if unknown else why_no_jury(split)
    jury = settled(PreparedJury(missing=missing)) if missing else None
    if real is None:
        real = inspect_real_images(given.models, images, progress=progress)
    if unknown:
        real = replace(real, summary=replace(real.summary, warnings=(LABELS_NOT_USED, *real.summary.warnings)))
    summary, letters = real.summary, roles(given.models)
    accuracies = [f"{role} {percent(share, 2)}" for role, share in zip(letters, summary.accuracy or (), strict=False)]
    outputs = [f"{output} ({role})" for role, output in zip(letters, summary.outputs, strict=True)]
    progress.say(
        f"Real images: {listed(letters)} agree on {percent(summary.agreement, 2)} of {summary.images:,}"
        + (f"; accuracy {', '.join(accuracies)}" if accuracies else "")
        + f"; outputs taken for {listed(outputs)}; numeric noise {summary.numeric_noise:.2g}, so that a disagreement "
        f"counts from a margin of {summary.margin:.2g}."
    )
    for warning in summary.warnings:
        progress.warn(warning)
    given.hooks.real_ready(images, real)
    check_seeds(config, real_images(images, real), images.source)
    # of a large set each network holds some hundred megabytes of what it learns from
    with SideBySide(device, progress, at_once=images.images.nbytes <= LARGE_BYTES) as side:
        make_cells = side.begin(lambda own: cell_store.prepare(images, device=device, progress=own))
        learn_to_redraw = None
        if uses_auto_encoder(config, jury=not unknown):
            learn_to_redraw = side.begin(lambda own: prepare_auto_encoder(split, config, device=device, progress=own))
        if jury is None:
            known = RealLabels.of(images, real)
            jury = settled(prepare_jury(split, known, config, device=device, progress=progress))
        cells = make_cells()
        if learn_to_redraw is not None:
            learn_to_redraw()  # source and filters find it in the cache
    # which filters there are becomes part of the settings: a replay must not guess again
    names = filter_names(config, jury=jury.recogniser is not None)
    config = replace(config, filters=replace(config.filters, names=names))
    context = FamilyContext(
        cells.encoder,
        device,
        progress,
        jury.recogniser,
        auto_encoder=partial(prepare_auto_encoder, split, config, device=device, progress=progress),
        answers=real.answers.probabilities,
        encoding=needs_of(config).encoder,
    )
    return _Looked(config, real, split, prepare_source(split, config, context), cells, jury, context)


def _prepare(given: Given, folder: RunFolder, looked: _Looked) -> Prepared:
    """Note in the manifest what the search will work with, and prepare the rest."""
    check_same_models(given.models, looked.real, given.images.images, folder)
    source, jury = looked.source, looked.jury
    gan = None if source.artifact is None else file_digest(source.artifact)
    if folder.manifest.get("gan", gan) != gan:
        given.progress.warn(
            "The network that drew the run's pictures is no longer in the cache, and the one that was trained now "
            "differs; the run goes on, but ends with other triggers than without the break."
        )
    layout = None if source.source is None else source.source.space.layout().as_dict()
    alone = [role for role, model in zip(roles(given.models), given.models, strict=True) if model.alone]
    announce(jury, folder, given.progress)
    folder.save_manifest(
        status="running",
        gan=gan,
        latents=layout,
        asked_alone=alone,
        warnings=_warned(given, folder),
        **({} if jury.note is None else {"jury": jury.note}),
    )
    return _assembled(given, folder, looked)


def _warned(given: Given, folder: RunFolder) -> list[str]:
    """What the user was warned of, each sentence once: also before the run was gone on with."""
    return list(dict.fromkeys([*folder.manifest.get("warnings", ()), *given.progress.warned]))


def _assembled(given: Given, folder: RunFolder, looked: _Looked) -> Prepared:
    """Calibrate the filters, and put together what the search works with."""
    source, jury = looked.source, looked.jury
    batch_size = resolve_batch_size(given.config.batch_size, given.device)
    pipeline = make_pipeline(
        looked.split,
        source.scorer,
        given.config,
        recogniser=jury.recogniser,
        batch_size=batch_size,
        device=given.device,
        progress=given.progress,
    )
    return Prepared(
        **{each.name: getattr(given, each.name) for each in fields(Given)},
        **{each.name: getattr(looked, each.name) for each in fields(_Looked) if each.name != "config"},
        folder=folder,
        pipeline=pipeline,
        batch_size=batch_size,
    )


def _search_and_judge(prepared: Prepared) -> CompareResult:
    models, folder, progress = prepared.models, prepared.folder, prepared.progress
    unanswered = [model.unanswered for model in models]
    prepared.hooks.search_ready(prepared)
    outcome = (prepared.search or run_search)(prepared)
    triggers = judge_triggers(
        models,
        folder.read_triggers(images=outcome.images),
        prepared.pipeline,
        prepared.cells,
        near_duplicate=prepared.config.filters.near_duplicate,
        verify_limit=prepared.config.verify_limit,
        real_labels=prepared.images.labels,
        real_differing=prepared.real.disagreements,
        recogniser=prepared.recogniser,
        taught_labels=prepared.jury.labels,
        progress=progress,
    )
    if not outcome.interrupted:
        write_operator_curves(prepared, outcome.queries)
        prepared = _asked_again(prepared, outcome.queries)
    for silence in silences_since(models, unanswered):
        progress.warn(silence)
    for model in models:
        if model.answers.cost_summary:
            progress.say(model.answers.cost_summary)
    with progress.stage("Counting what was found"):
        results = write_outcome(prepared, outcome, triggers)
    prepared.hooks.judged(prepared, triggers)
    for warning in results.warnings:
        progress.warn(warning)
    status = "interrupted" if outcome.interrupted else "done"
    folder.save_manifest(status=status, warnings=_warned(prepared, folder))
    go_on = resume_command(folder, prepared.config) if outcome.interrupted else ""
    return CompareResult.of(folder, results, go_on, prepared.real.doubts)


def _asked_again(prepared: Prepared, queries: int) -> Prepared:
    """What is prepared, with a warning of each model that has drifted since it was asked about the real images."""
    found, real = drifts(prepared, queries), prepared.real
    unsteady = tuple(before or now for before, now in zip(real.unsteady, found, strict=True))
    drifted = [each for each in found if each]
    for sentence in drifted:
        prepared.progress.warn(sentence)
    summary = replace(real.summary, warnings=(*real.summary.warnings, *drifted))
    return replace(prepared, real=replace(real, summary=summary, unsteady=unsteady))
