"""Entry point of ``diffgen compare --resume``: go on with a run that was interrupted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from diffgen.comparison.black_boxes import resume_command
from diffgen.comparison.image_source import check_unchanged
from diffgen.comparison.machine import device_name, versions
from diffgen.comparison.named_settings import stored_settings
from diffgen.comparison.opened_run import OpenedRun
from diffgen.comparison.plan import Objects, Plan
from diffgen.comparison.preflight import prepare_models
from diffgen.comparison.settle import check_same_answers
from diffgen.comparison.stages import CompareResult, attach_answers
from diffgen.config import CompareConfig, ModelSpec, replace, to_dict
from diffgen.config.gan import TuningConfig
from diffgen.errors import UserError
from diffgen.events import Answered, Listener, Progress, StopToken
from diffgen.models.panel import seated
from diffgen.numerics import all_threads, own_numerics
from diffgen.parts import Extensions, in_use
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import RunLock
from diffgen.runs.results import read_finished
from diffgen.workflows.compare import run_stages


@own_numerics()
def resume(
    run: str | Path,
    *models: Any,
    data: Any = None,
    technique: Any = None,
    generator: Any = None,
    filters: Sequence[Any] | None = None,
    options: Sequence[ModelSpec] = (),
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> CompareResult:
    """Go on with a run that was broken off; with a budget in queries it ends as it would have without the break.

    A run whose search is finished is only filtered and reported; of one that is done, the figures are read.

    Args:
        run: the run folder.
        models, data: needed only where the run was given objects instead of files, or files have moved.
        technique, generator, filters: the objects that the run was made with, given again; None for the others.
        options: allows again what runs code, for each model in turn; or none: nothing of the kind.

    Raises:
        UserError: there is nothing to go on with, models or data are not those of the run, or another process works
            in the folder.
        RunError: the run broke off again.
    """
    progress = Progress(events, stop)
    with RunLock(RunFolder.open(run).path):
        folder = RunFolder.open(run)
        if "check" in folder.manifest:
            again = resume_command(folder, stored_settings(folder))
            raise UserError(f"The run {folder.path} is a check; go on with '{again}'.")
        folder.tidy()
        done = _figures_of_done(folder)
        if done is not None:
            progress.say(f"The run {folder.path} is done; nothing is left to go on with. Here are its figures again.")
            return done
        own = Extensions.among(technique, generator, filters).of_run(folder.manifest, folder.path)
        with own.in_use(), resumed_plan(folder, models, data=data, options=options, progress=progress) as plan:
            return run_stages(plan)


def _figures_of_done(folder: RunFolder) -> CompareResult | None:
    """What a run that came to its end said at the end; None for any other."""
    if folder.manifest.get("status") != "done":
        return None
    try:
        return CompareResult.of(folder, read_finished(folder))
    except UserError:
        return None  # damaged; filters and report are made again


@contextmanager
def resumed_plan(
    folder: RunFolder, given: Sequence[Any], *, data: Any, options: Sequence[ModelSpec], progress: Progress
) -> Iterator[Plan]:
    """The plan of a run that is not done, whose lock the caller holds. UserError as :func:`resume`."""
    run = OpenedRun(folder)
    models = run.models(given, options=options, looks_anew=True)
    images = run.data(data, purpose="resume it", progress=progress)
    check_unchanged(run.config.generator, folder)
    check_same_answers(run.config, folder, images.image_shape)
    with ExitStack() as held:
        for model in models:
            held.callback(model.answers.detach)
        attach_answers(models, folder)
        prepare_models(models, images, progress)
        models = seated(models, run.config.task)
        _warn_of_changes(folder, run.device, progress)
        objects = Objects(tuple(given), data, options, in_use())
        with folder.reading():
            if varied := folder.manifest.get("answers", {}).get("variations"):
                progress.answers["variations"] = Answered(**varied)  # nobody is asked about these again
        # the run has its GAN, and whoever goes on with it wants its search
        config = replace(run.config, tuning=TuningConfig(), stop_after="search")

        def open_folder(settled: CompareConfig) -> RunFolder:
            if not folder.has_checkpoint():  # it ended before its search, for which more was settled now
                folder.write_config(to_dict(replace(settled, tuning=run.config.tuning)))
            return folder

        yield Plan(models, images, config, run.device, progress, open_folder, objects)


def _warn_of_changes(folder: RunFolder, device: torch.device, progress: Progress) -> None:
    """Say what is no longer as it was when the run was started."""
    before = {
        **folder.manifest.get("versions", {}),
        "device": folder.manifest.get("device"),
        "threads": folder.manifest.get("threads"),
    }
    now = {**versions(), "device": device_name(device), "threads": all_threads()}
    changed = [
        f"{name} {before[name]} then, {now[name]} now" for name in now if before.get(name, now[name]) != now[name]
    ]
    if changed:
        progress.warn(
            f"The run was started elsewhere ({'; '.join(changed)}); it goes on, but may end with other triggers than "
            "without the break."
        )
