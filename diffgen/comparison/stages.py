"""The stages of a comparison: look, learn, begin, search, judge. A check calls them, too, and measures between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any

import torch

from diffgen.comparison.black_boxes import load_spec, resume_command
from diffgen.comparison.classes import LABELS_NOT_USED, NO_JURY_WITHOUT_LABELS
from diffgen.comparison.filter_chain import make_pipeline, prepare_auto_encoder
from diffgen.comparison.image_source import prepare_source
from diffgen.comparison.jury import PreparedJury, RealLabels, announce, check_given, prepare_jury, why_no_jury
from diffgen.comparison.known_maps import named_by_origin
from diffgen.comparison.operator_curves import write_operator_curves
from diffgen.comparison.plan import Learned, Plan, Prepared
from diffgen.comparison.preflight import RealAnswers, inspect_real_images, silences_since
from diffgen.comparison.probable_cause import cause_of, name_cause
from diffgen.comparison.reference import GivenJury, prepare_reference
from diffgen.comparison.requirements import (
    check_jury,
    check_seeds,
    filter_names,
    needs_of,
    over_before_a_jury,
    uses_auto_encoder,
)
from diffgen.comparison.results import class_names, write_outcome
from diffgen.comparison.same_models import check_same_models, drifts
from diffgen.comparison.technique_run import SearchOutcome, real_images, run_search, screen_that_pays, try_out_technique
from diffgen.comparison.verdicts import judge_triggers
from diffgen.config import CompareConfig, ModelSpec, replace, roles
from diffgen.events import Answered, Progress
from diffgen.features import cells as cell_store
from diffgen.filters import FilterPipeline
from diffgen.metrics.intervals import exact_interval
from diffgen.models import BlackBox
from diffgen.models.base import PREPARED
from diffgen.models.loading import file_digest
from diffgen.models.panel import panel_of
from diffgen.runs.figures import ManyFigures
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import RunResults
from diffgen.runs.triggers import TriggerTable
from diffgen.sampling import LARGE_BYTES, random_rows
from diffgen.side_by_side import SideBySide
from diffgen.sources.base import FamilyContext, ImageSource
from diffgen.tasks.classification import listed
from diffgen.wording import count_of, percent, why_no_jury_of


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
        known_scores: see :class:`diffgen.runs.figures.Preflight`.
        calibration_error: expected calibration error of each model, 0..1, or None.
        milliseconds: that one image takes each model, in batches; None where a server answers.
        many: of three models or more, who stands alone and which two differ most; see
            :class:`diffgen.runs.figures.ManyFigures`.
        go_on: what goes on with a search that was interrupted, or empty: a command, or a call in Python where the run
            was given objects.
        doubts: what was said of the models on the real images that wrong pre-processing, or another order of classes,
            would explain; one sentence each.
        selector: what that of the run is worth, as :meth:`diffgen.SelectResult.as_dict` says it, or None: it has none.
        cause: why two models differ that should be the same, or empty: nobody looked; see
            :func:`diffgen.comparison.probable_cause.name_cause`.
        answers: what was said after each stage, and after how many seconds.
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
    known_scores: tuple[float, ...] | None = None
    calibration_error: tuple[float, ...] | None = None
    milliseconds: tuple[float | None, ...] | None = field(default=None, compare=False)
    many: ManyFigures | None = None
    go_on: str = field(default="", compare=False)
    doubts: tuple[str, ...] = field(default=(), compare=False)
    selector: Mapping[str, Any] | None = field(default=None, compare=False)
    cause: str = field(default="", compare=False)
    answers: tuple[Answered, ...] = field(default=(), compare=False)

    @classmethod
    def of(
        cls,
        folder: RunFolder,
        results: RunResults,
        go_on: str = "",
        doubts: tuple[str, ...] = (),
        answers: tuple[Answered, ...] = (),
    ) -> CompareResult:
        """The figures of a run whose search came to its end."""
        of_real = ("flips_per_1000", "accuracy", "known_scores", "calibration_error")
        real = {name: getattr(results.preflight, name) for name in of_real}
        apart = ("run", "go_on", "doubts", "selector", "cause", "answers", *real)
        own = [each.name for each in fields(cls) if each.name not in apart]
        figures: dict[str, Any] = {**real, **{name: getattr(results, name) for name in own}}
        figures["discovery"] = results.discovery.as_dict()
        selector = folder.read_arrays("selection")["about"] if folder.has_arrays("selection") else None
        cause = cause_of(folder)
        figures |= {"go_on": go_on, "doubts": doubts, "answers": answers, "selector": selector, "cause": cause}
        return cls(run=str(folder.path), **figures)

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON values, without ``most_frequent``, ``interrupted`` and ``go_on``."""
        values = asdict(self)
        del values["most_frequent"], values["interrupted"], values["go_on"]
        for name in ("known_scores", "many", "selector", "cause"):
            if not values[name]:
                del values[name]
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


@contextmanager
def kept(folder: RunFolder, config: CompareConfig) -> Iterator[None]:
    """A part of the work after which, if it breaks off, the run can be gone on with; it is told to say how."""
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        error.add_note(f"what was found is kept; go on with '{resume_command(folder, config)}'")
        raise


def given_jury(plan: Plan) -> PreparedJury | GivenJury | None:
    """The jury that the settings name; or that there is none, and why, where this is known before the models are asked.

    Raises:
        UserError: it cannot be used; or there is none, and the settings name the filter that asks it.
    """
    if plan.config.jury is not None:
        return GivenJury(reference_model(plan, plan.config.jury))
    missing = NO_JURY_WITHOUT_LABELS if plan.config.data_labels == "ignore" else why_no_jury(plan.split)
    if (panel := panel_of(plan.models)) is not None:
        missing = panel.task.no_jury
    if not missing and over_before_a_jury(plan.config, plan.images.image_shape):
        asked = count_of(plan.config.budget.queries or 0, "query", "queries")
        missing = f"No jury: of large pictures one learns longer than a search of {asked} takes."
    if not missing:
        return None
    check_jury(plan.config, why_no_jury_of(missing))
    return PreparedJury(missing=missing)


def reference_model(plan: Plan, file: str) -> BlackBox:
    """A classifier that is not under test, opened.

    Raises:
        UserError: it cannot be, has other classes, or is one of those under test.
    """
    images = plan.images.images[random_rows(len(plan.images), PREPARED)]
    roles_of = zip(roles(plan.models), plan.models, strict=True)
    under_test = {model.digest: role for role, model in roles_of if model.digest is not None}
    model = load_spec(file, ModelSpec(), device=plan.device, batch_size=plan.batch_size)
    prepare_reference(model, images, class_names(plan.models, plan.images), under_test, plan.progress)
    return model


def look(plan: Plan) -> RealAnswers:
    """Ask the models about the real images, and say what they answer.

    Raises:
        UserError: the technique can begin with none of these images.
    """
    images, progress = plan.images, plan.progress
    real = inspect_real_images(plan.models, images, progress=progress)
    if plan.config.data_labels == "ignore":
        real = replace(real, summary=replace(real.summary, warnings=(LABELS_NOT_USED, *real.summary.warnings)))
    summary, letters = real.summary, roles(plan.models)
    shares = summary.accuracy or summary.known_scores or ()
    accuracies = [f"{role} {percent(share, 2)}" for role, share in zip(letters, shares, strict=False)]
    measure = summary.measure if summary.known_scores else "accuracy"
    outputs = [f"{output} ({role})" for role, output in zip(letters, summary.outputs, strict=True)]
    low, high = exact_interval(round(summary.agreement * summary.images), summary.images)
    progress.answer(
        "real",
        f"Real images: {listed(letters)} agree on {percent(summary.agreement, 2)} of {summary.images:,} (95%: "
        f"{percent(low)} to {percent(high)})" + (f"; {measure} {', '.join(accuracies)}" if accuracies else "") + ".",
    )
    progress.say(
        f"Outputs are taken for {listed(outputs)}; numeric noise {summary.numeric_noise:.2g}, so that a disagreement "
        f"counts from a margin of {summary.margin:.2g}."
    )
    for warning in summary.warnings:
        progress.warn(warning)
    check_seeds(plan.config, real_images(images, real), images.source)
    return real


def unlearned(plan: Plan, real: RealAnswers) -> Prepared:
    """What a run has that ends before its search: its folder, and what the models say of the real images."""
    cells = cell_store.unlearned(plan.images.image_shape)
    learned = Learned(
        **_fields(plan),
        real=real,
        cells=cells,
        jury=PreparedJury(),
        source=ImageSource(real=True),
        context=FamilyContext(cells.encoder, plan.device, plan.progress),
    )
    folder = plan.open_folder(plan.config)
    folder.save_manifest(status="running", warnings=_warned(plan, folder), answers=_kept_answers(plan))
    pipeline = FilterPipeline(())
    pipeline.fit(*(torch.from_numpy(plan.images.images[:1]),) * 2)
    unanswered = tuple(model.unanswered for model in plan.models)
    return Prepared(**_fields(learned), folder=folder, pipeline=pipeline, unanswered=unanswered)


def learn(plan: Plan, real: RealAnswers, jury: PreparedJury | GivenJury | None) -> Learned:
    """Train the jury, the source and what the cells and the filters ask; each is taken from the cache if it is there.

    Args:
        plan: the models are prepared.
        real: what the models say of the real images.
        jury: see :func:`given_jury`.

    Returns:
        the plan, whose settings name the filters and what is screened: a replay must not guess again.
    """
    images, config, device, progress, split = plan.images, plan.config, plan.device, plan.progress, plan.split
    known = RealLabels.of(images, real)
    if isinstance(jury, GivenJury):
        jury = check_given(jury, split, known, real, config)
        check_jury(config, jury.reason)
    # of a large set each network holds some hundred megabytes of what it learns from
    with SideBySide(device, progress, at_once=images.images.nbytes <= LARGE_BYTES) as side:
        make_cells = side.begin(lambda own: cell_store.prepare(images, device=device, progress=own))
        learn_to_redraw = None
        if uses_auto_encoder(config, jury=config.data_labels != "ignore"):
            learn_to_redraw = side.begin(lambda own: prepare_auto_encoder(split, config, device=device, progress=own))
        if jury is None:
            jury = prepare_jury(split, known, config, device=device, progress=progress)
            check_jury(config, jury.reason)
        cells = make_cells()
        if learn_to_redraw is not None:
            learn_to_redraw()  # source and filters find it in the cache
    names = filter_names(config, jury=jury.recogniser is not None)
    config = replace(config, filters=replace(config.filters, names=names))
    context = FamilyContext(
        cells.encoder,
        device,
        progress,
        jury.recogniser,
        auto_encoder=partial(prepare_auto_encoder, split, config, device=device, progress=progress),
        answers=real.answers.probabilities,
        encoding="encoder" in needs_of(config),
    )
    source = prepare_source(split, config, context)
    # what the models agree on may be as far from the truth as labels that are no classes of theirs
    if jury.recogniser is None and source.mild and config.data_labels != "ignore" and panel_of(plan.models) is None:
        jury = jury.by_real_images(known)
    progress.say(jury.missing or str(jury.figures))
    screen = screen_that_pays(config, real, source, jury.recogniser)
    plan = replace(plan, config=replace(config, search=replace(config.search, screen=screen)))
    return Learned(**_fields(plan), real=real, cells=cells, jury=jury, source=source, context=context)


def begin(learned: Learned) -> Prepared:
    """Make the run folder, or open that of the run; see that all is as it was, and calibrate the filters.

    Raises:
        UserError: a technique of the user's own proposes what no model can be asked.
    """
    with before_the_search():
        try_out_technique(learned)
        folder = learned.open_folder(learned.config)
    with kept(folder, learned.config):
        check_same_models(learned.models, learned.real, learned.images.images, folder)
        _note(learned, folder)
        name_cause(learned, folder)
        return with_filters(learned, folder)


def _note(learned: Learned, folder: RunFolder) -> None:
    """Write into the manifest what the search will work with, and warn where that is no longer what it was."""
    source, jury, progress = learned.source, learned.jury, learned.progress
    gan = None if source.artifact is None else file_digest(source.artifact)
    if folder.manifest.get("gan", gan) != gan:
        progress.warn(
            "The network that drew the run's pictures is no longer in the cache, and the one that was trained now "
            "differs; the run goes on, but ends with other triggers than without the break."
        )
    announce(jury, folder, progress)
    folder.save_manifest(
        status="running",
        gan=gan,
        latents=None if source.source is None else source.source.space.layout().as_dict(),
        asked_alone=[role for role, model in zip(roles(learned.models), learned.models, strict=True) if model.alone],
        warnings=_warned(learned, folder),
        answers=_kept_answers(learned),
        **({} if jury.note is None else {"jury": jury.note}),
    )


def _kept_answers(plan: Plan) -> dict[str, Any]:
    return {stage: asdict(each) for stage, each in plan.progress.answers.items()}


def _warned(plan: Plan, folder: RunFolder) -> list[str]:
    """What the user was warned of, each sentence once: also before the run was gone on with."""
    return list(dict.fromkeys([*folder.manifest.get("warnings", ()), *plan.progress.warned]))


def with_filters(learned: Learned, folder: RunFolder) -> Prepared:
    """Calibrate the filters; nothing is written to the folder."""
    pipeline = make_pipeline(
        learned.split,
        learned.source.scorer,
        learned.config,
        recogniser=learned.recogniser,
        batch_size=learned.batch_size,
        device=learned.device,
        progress=learned.progress,
    )
    unanswered = tuple(model.unanswered for model in learned.models)
    return Prepared(**_fields(learned), folder=folder, pipeline=pipeline, unanswered=unanswered)


def _fields(plan: Plan) -> dict[str, Any]:
    return {each.name: getattr(plan, each.name) for each in fields(plan)}


def search(run: Prepared) -> SearchOutcome:
    """Search until the budget is used up: in this process, or on islands where the settings say so.

    Raises:
        UserError, RunError: see :func:`diffgen.comparison.technique_run.run_search`.
    """
    if not run.config.islands.used:
        return run_search(run)
    from diffgen.comparison.islands.driver import search_on_islands

    return search_on_islands(run)


@dataclass(frozen=True)
class Judged:
    """What a search found, judged, and its figures, which are written.

    Attributes:
        run: as it is after the models were asked once more whether they are still the same.
    """

    run: Prepared
    outcome: SearchOutcome
    triggers: TriggerTable
    results: RunResults


def judge(run: Prepared, outcome: SearchOutcome) -> Judged:
    """Ask models, filters and jury about what a search found, count it, and write the figures."""
    models, folder, progress, panel = run.models, run.folder, run.progress, panel_of(run.models)
    triggers = judge_triggers(
        models,
        folder.read_triggers(images=outcome.images),
        run.pipeline,
        run.cells,
        near_duplicate=run.config.filters.near_duplicate,
        verify_limit=run.config.verify_limit,
        real_labels=run.images.labels,
        real_differing=run.real.disagreements,
        recogniser=run.recogniser,
        taught_labels=run.jury.labels,
        read_origins=None if panel is None else partial(named_by_origin, panel, run.images, run.real.known.leaves_out),
        progress=progress,
    )
    if outcome.begun and not outcome.interrupted:
        write_operator_curves(run, outcome.queries)
        run = _asked_again(run, outcome.queries)
    for silence in silences_since(models, run.unanswered):
        progress.warn(silence)
    for model in models:
        if model.answers.cost_summary:
            progress.say(model.answers.cost_summary)
    with progress.stage("Counting what was found"):
        results = write_outcome(run, outcome, triggers)
    if outcome.begun:
        found = count_of(results.distinct_valid_triggers, "distinct picture")
        progress.answer("search", f"Search: {count_of(results.behaviours, 'behaviour')} on {found}.")
    return Judged(run, outcome, triggers, results)


def _asked_again(run: Prepared, queries: int) -> Prepared:
    """The run, with a warning of each model that has drifted since it was asked about the real images."""
    found, real = drifts(run, queries), run.real
    unsteady = tuple(before or now for before, now in zip(real.unsteady, found, strict=True))
    drifted = [each for each in found if each]
    for sentence in drifted:
        run.progress.warn(sentence)
    summary = replace(real.summary, warnings=(*real.summary.warnings, *drifted))
    return replace(run, real=replace(real, summary=summary, unsteady=unsteady))


def _in_stages(progress: Progress) -> tuple[Answered, ...]:
    return tuple(progress.answers[stage] for stage in ("real", "variations", "search") if stage in progress.answers)


def finish(judged: Judged) -> CompareResult:
    """Note in the manifest how the run ended, and give its figures."""
    run, ended = judged.run, judged.outcome.begun and not judged.outcome.interrupted
    for warning in judged.results.warnings:
        run.progress.warn(warning)
    run.folder.save_manifest(status="done" if ended else "interrupted", warnings=_warned(run, run.folder))
    go_on = "" if ended else resume_command(run.folder, run.config)
    return CompareResult.of(run.folder, judged.results, go_on, run.real.doubts, _in_stages(run.progress))
