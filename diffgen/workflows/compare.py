"""Entry point of ``diffgen compare``: settle what was asked for, then run the stages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from diffgen.comparison import stages
from diffgen.comparison.islands.begin import check_islands
from diffgen.comparison.named_settings import settled
from diffgen.comparison.plan import Plan
from diffgen.comparison.preflight import RealAnswers
from diffgen.comparison.settle import Request, settled_plan
from diffgen.comparison.stages import CompareResult
from diffgen.comparison.technique_run import SearchOutcome
from diffgen.comparison.variations import look_at_variations
from diffgen.config import CompareConfig
from diffgen.config.named import NamedSettings
from diffgen.errors import Stopped
from diffgen.events import Listener, Progress, StopToken
from diffgen.numerics import own_numerics
from diffgen.report.from_run import write_report
from diffgen.report.line import STAGES, is_published
from diffgen.workflows.gan_tuning import tune_for
from diffgen.workflows.select import select_after


@own_numerics()
def compare(
    *models: Any,
    data: Any,
    technique: Any = None,
    technique_settings: Any = None,
    generator: Any = None,
    filters: str | Sequence[Any] | None = None,
    config: CompareConfig | None = None,
    output: str | Path | None = None,
    force: bool = False,
    events: Listener | None = None,
    stop: StopToken | None = None,
    command: str = "diffgen.compare(...)",
    **settings: Unpack[NamedSettings],
) -> CompareResult:
    """Search for realistic pictures on which models disagree, and write a run folder.

    Args:
        models: two or more: files, addresses of remote models, callables from arrays to probabilities (see
            :func:`diffgen.models.load`), or a :class:`diffgen.config.ModelSpec` with a path; none: those of ``config``.
        data: real images; see :func:`diffgen.data.load`.
        technique: how to search, by name (see :mod:`diffgen.techniques`); or a technique of one's own, a class derived
            from :class:`diffgen.Technique` or a ``functools.partial`` of one.
        technique_settings: an object of the technique's own ``Settings``, or None: its defaults.
        generator: file of a generator of the user's own, in place of the GAN; see
            :class:`diffgen.config.GeneratorConfig`. Or an object, a :class:`diffgen.Source`, or a class or function
            that makes one for the shape (C, H, W) of the images.
        filters: validity filters, in the order in which they are asked: names, and objects of one's own (see
            :class:`diffgen.Filter`); or the name of a preset. None: those of ``config``.
        config: every other setting, and the defaults of what is named.
        output: run folder, or None for a new one under ``runs/``.
        force: replace the run that is in the folder.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.
        command: what the user typed, for the report.
        settings: what the command line's options set, under their names: ``budget="60s"``, ``seed=7``,
            ``gan_schedule="quick"``; see :class:`diffgen.config.named.NamedSettings`.

    Raises:
        UserError: something given cannot be used; nothing was written.
        RunError: the run broke off; what was found is in the run folder.
    """
    given = {"technique": technique, "generator": generator, "filters": filters}
    with settled(
        CompareConfig() if config is None else config, settings, technique_settings=technique_settings, **given
    ) as config:
        request = Request(models, data, config, output, force, command)
        check_islands(config)
        with settled_plan(request, Progress(events, stop)) as plan:
            return run_stages(plan)


def run_stages(plan: Plan) -> CompareResult:
    """All stages of a comparison, new or gone on with, to its report. UserError, RunError as :func:`compare`."""
    last = plan.config.stop_after
    with stages.before_the_search():
        oracle = None if plan.config.oracle is None else stages.reference_model(plan, plan.config.oracle)
        _tell(plan, "gan")
        tune_for(plan)
        jury = stages.given_jury(plan)
        real = stages.look(plan)
    try:
        if last != "real" and "variations" not in plan.progress.answers:
            look_at_variations(plan, real)
        learned = stages.learn(plan, real, jury) if last == "search" else None
    except (KeyboardInterrupt, Stopped):
        # a second interruption ends the report, too
        with plan.progress.stop.heeding():
            return _without_search(plan, real, interrupted=True)
    if learned is None:
        return _without_search(plan, real)
    run = stages.begin(learned)
    with stages.kept(run.folder, run.config):
        _tell(plan, "search")
        outcome = stages.search(run)
        _tell(plan, "filters")
        judged = stages.judge(run, outcome)
        if run.config.select and not outcome.interrupted:
            _tell(plan, "selector")
            select_after(judged, oracle)
        with plan.progress.stage("Drawing the report"):
            write_report(run.folder, judged.triggers)
        return stages.finish(judged)


def _without_search(plan: Plan, real: RealAnswers, *, interrupted: bool = False) -> CompareResult:
    """The report of what was answered until now; the run can be gone on with."""
    run = stages.unlearned(plan, real)
    judged = stages.judge(run, SearchOutcome(interrupted=interrupted, begun=False))
    write_report(run.folder, judged.triggers)
    return stages.finish(judged)


def _tell(plan: Plan, stage: str) -> None:
    """Say which part of the paper comes, in a run that goes its line."""
    if is_published(plan.config.technique, plan.config.preset, plan.config.source.family):
        section, title = STAGES[stage]
        plan.progress.say(f"{title} (DiffGAN paper, section {section})")
