"""The regression gate: may this candidate replace the base? A comparison with values, limits and a store of finds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from diffgen.comparison import stages
from diffgen.comparison.black_boxes import resume_command
from diffgen.comparison.islands.begin import check_islands
from diffgen.comparison.jury import PreparedJury
from diffgen.comparison.named_settings import check_config, settled, stored_settings
from diffgen.comparison.plan import Plan, Prepared
from diffgen.comparison.requirements import needs_of
from diffgen.comparison.settings_file import parts
from diffgen.comparison.settle import Request, settled_plan
from diffgen.comparison.stages import CompareResult
from diffgen.config import CheckConfig, ModelSpec, applied, from_dict, replace
from diffgen.config.named import NamedCheckSettings, keys, layer
from diffgen.errors import DiffgenError, UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.gate.result import CheckResult
from diffgen.numerics import own_numerics
from diffgen.parts import Extensions
from diffgen.runs.creation import remove_verdict
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import RunLock
from diffgen.runs.store import Store, read_store
from diffgen.techniques import technique_class
from diffgen.workflows.accept import acceptances
from diffgen.workflows.check_requirements import check_base, check_jury, check_variations
from diffgen.workflows.check_stages import Gate
from diffgen.workflows.gan_tuning import tune_for
from diffgen.workflows.resume import resumed_plan
from diffgen.workflows.select import select_after
from diffgen.workflows.verdict import check_same_files, redraw, verdict_of_done, warn_of_other_store


@own_numerics()
def check(
    base: Any,
    candidate: Any,
    *,
    data: Any,
    store: str | Path | None = None,
    technique: Any = None,
    generator: Any = None,
    filters: str | Sequence[Any] | None = None,
    config: CheckConfig | None = None,
    output: str | Path | None = None,
    force: bool = False,
    events: Listener | None = None,
    stop: StopToken | None = None,
    command: str = "diffgen.check(...)",
    **settings: Unpack[NamedCheckSettings],
) -> CheckResult:
    """Ask whether a candidate may replace a base, and write a run folder with the answer.

    Both models are asked about the real images first, then about the pictures in the store, about random variations of
    the real images, about random valid pictures, and about what a search finds.

    Args:
        base, candidate: model files, or callables; see :func:`diffgen.models.load`.
        data: real images; see :func:`diffgen.data.load`.
        store: folder with the behaviours that were accepted before, or None: none was. It need not exist yet.
        technique, generator, filters: names, files or objects of one's own, as for :func:`diffgen.compare`.
        config: the limits, every other setting, and the defaults of what is named.
        output: run folder, or None for a new one under ``runs/``.
        force: replace the run that is in the folder; its verdict goes first, also where this check cannot be begun.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.
        command: what the user typed, for the report.
        settings: as for :func:`diffgen.compare`, and the limits as the command line's options are named:
            ``max_accuracy_drop=0.01``; a budget in queries makes the check repeatable.

    Returns:
        the outcome, also when the search broke off: its status is then ERROR, and the sentence says why.

    Raises:
        UserError: something given cannot be used.
        RunError: it broke off before the search was prepared.
    """
    if force and output is not None:
        remove_verdict(Path(output))
    progress = Progress(events, stop)
    config = CheckConfig() if config is None else config
    check_config(config, CheckConfig)
    own, _ = parts(layer(settings, CheckConfig))
    config, of_comparison = applied(config, own), keys()
    named = {name: value for name, value in settings.items() if name in of_comparison}
    given = {"technique": technique, "generator": generator, "filters": filters}
    with settled(config.compare, named, **given) as comparison:
        config = replace(config, compare=comparison)
        known = technique_class(comparison.technique).asks_known_images
        if "source" not in needs_of(config.compare) and not known:
            raise UserError(
                f"A check also asks about random pictures, and the technique {comparison.technique} draws none; check "
                "with diffgan or random_latent."
            )
        check_variations(config)
        gate = _gate(config, store, progress)
        request = Request((base, candidate), data, config.compare, output, force, command, gate.about())
        check_islands(config.compare)
        with settled_plan(request, progress) as plan:
            return _checked(gate, plan)


@own_numerics()
def resume_check(
    run: str | Path,
    base: Any = None,
    candidate: Any = None,
    *,
    data: Any = None,
    store: str | Path | None = None,
    technique: Any = None,
    generator: Any = None,
    filters: Sequence[Any] | None = None,
    options: Sequence[ModelSpec] = (),
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> CheckResult:
    """Go on with a check that broke off; with a budget in queries it ends as it would have without the break.

    Settings and limits are those that it was started with; the store is read as it is now. Of a check that came to its
    end the verdict is read, as long as its files are what they were.

    Args:
        run: the run folder.
        base, candidate, data: needed only where the check was given objects instead of files, or files have moved.
        store: where the store is now, or None: where it was.
        technique, generator, filters: the objects that the check was made with, given again; None for the others.
        options: allows again what runs code, for base and candidate; or none: nothing of the kind.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Returns:
        the outcome; ERROR when it broke off again.

    Raises:
        UserError: the run is no check, models or data are not those of the run, or another process works in the folder.
        RunError: it broke off before the search was prepared.
    """
    progress = Progress(events, stop)
    with RunLock(RunFolder.open(run).path):
        folder = RunFolder.open(run)
        about = folder.manifest.get("check")
        if not isinstance(about, dict):
            again = resume_command(folder, stored_settings(folder))
            raise UserError(f"The run {folder.path} is no check; go on with '{again}'.")
        folder.tidy()
        done = verdict_of_done(folder)
        if done is not None:
            check_same_files(folder, (base, candidate), data=data, progress=progress)
            redraw(folder, progress)
            warn_of_other_store(done, store, progress)
            progress.say(f"The check {folder.path} is done; nothing is left to go on with. Here is its verdict again.")
            return done
        settings = {name: value for name, value in about.items() if name != "store"}
        config = replace(from_dict(CheckConfig, settings), compare=stored_settings(folder))
        given = (base, candidate) if base is not None or candidate is not None else ()
        gate = _gate(config, about.get("store") if store is None else store, progress)
        with (
            Extensions.among(technique, generator, filters).of_run(folder.manifest, folder.path).in_use(),
            resumed_plan(folder, given, data=data, options=options, progress=progress) as plan,
        ):
            return _checked(gate, plan)


def _gate(config: CheckConfig, store: str | Path | None, progress: Progress) -> Gate:
    place = None if store is None else Path(store)
    known = Store() if place is None else read_store(place)
    if place is not None and not known.behaviours and not known.accepted:
        progress.warn(
            f"The store {place} holds nothing yet, so that every behaviour counts as new and no value is held against "
            "what was accepted; look at its path where it should hold something."
        )
    return Gate(config, place, known, acceptances(known), progress)


def _checked(gate: Gate, plan: Plan) -> CheckResult:
    """The stages of a comparison, with what a check refuses and measures between them, and the verdict.

    A check that breaks off once the search is prepared has a verdict, too.

    Raises:
        UserError, RunError: see :func:`check`.
    """
    with stages.before_the_search():
        gate.refuse(plan)
        oracle = None if plan.config.oracle is None else stages.reference_model(plan, plan.config.oracle)
        tune_for(plan)
        jury = stages.given_jury(plan)
        if isinstance(jury, PreparedJury):
            check_jury(gate.config, jury)
        real = stages.look(plan)
        check_base(plan.images, real)
        learned = stages.learn(plan, real, jury)
        check_jury(gate.config, learned.jury)
    run = stages.begin(learned)
    try:
        with stages.kept(run.folder, run.config):
            gate.measure(run)
            judged = stages.judge(run, stages.search(run))
            if run.config.select and not judged.outcome.interrupted:
                select_after(judged, oracle)
            result = stages.finish(judged)
    except BaseException as error:
        if isinstance(error, DiffgenError):
            if isinstance(error, UserError):
                raise
            plan.progress.warn(str(error))
            reason = str(error) if error.__cause__ is None else f"{error} ({error.__cause__})"
            return gate.conclude(run, f"The search broke off: {reason}")
        # a check that was begun leaves a verdict behind, whatever ends it
        broke_off = f"The search broke off: {type(error).__name__}."
        gate.conclude(run, "The check was interrupted." if isinstance(error, KeyboardInterrupt) else broke_off)
        raise
    return gate.conclude(judged.run, _cut_short(result, judged.run), judged.triggers)


def _cut_short(result: CompareResult, prepared: Prepared) -> str:
    """Why a search that ended in good order did not come to its end, or nothing."""
    if result.interrupted:
        return "The search was interrupted before its budget was used up."
    budget, known = prepared.config.budget, technique_class(prepared.config.technique).asks_known_images
    asked = budget.queries is not None and result.queries >= budget.queries
    waited = budget.seconds is not None and result.seconds >= budget.seconds
    # before its budget a search ends where a model may not be asked any further, where a worker was given up, and where
    # everything that there is was asked about
    limited = any(model.answers.images_left is not None for model in prepared.models)
    everything = known and result.queries >= len(prepared.images)
    if asked or waited or result.saturated or everything or not (limited or prepared.config.islands.used):
        return ""
    why = "a model may be asked about no more images" if limited else "a worker ended early"
    return f"The search ended after {result.queries:,} queries, before its budget of {budget}: {why}."
