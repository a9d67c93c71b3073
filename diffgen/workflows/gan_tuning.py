"""Searches for the settings of a data set's GAN, here or on several workers, and keeps the best one's."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import diffgen
from diffgen.comparison.machine import resolve_device
from diffgen.comparison.plan import Plan
from diffgen.config import CompareConfig, GanConfig, TrainGanConfig
from diffgen.data.split import DataSplit
from diffgen.errors import RunError, UserError
from diffgen.events import Listener, Progress
from diffgen.features import cells as cell_store
from diffgen.features.base import FeatureExtractor
from diffgen.gan_training.augmentation import TRANSFORMATIONS
from diffgen.gan_training.checkpoint import add_to_header, read_header
from diffgen.gan_training.monitor import MIN_HELD_OUT, KidMonitor, Measurement, collapse
from diffgen.gan_training.scores import GeneratorScores, score_generator
from diffgen.gan_training.trainer import number_of_steps, steps_between_readings
from diffgen.numerics import all_threads
from diffgen.pool.calls import Ended
from diffgen.pool.processes import Processes
from diffgen.runs.files import write_whole
from diffgen.sources import gan as gan_loader
from diffgen.sources.base import FamilyContext, Source
from diffgen.sources.gan import make_monitor, train_and_save
from diffgen.sources.space import random_genes
from diffgen.types import ImageSet

if TYPE_CHECKING:
    from diffgen.gan_training.tuning_outcome import Tuned

_DRAWS, _IMAGES = 2, 5_000  # of the score of a trial's GAN
_ATTEMPTS = 3  # of a worker, until it is given up
_SECONDS_BETWEEN_LOOKS = 0.5


def check_workers(workers: int, config: TrainGanConfig) -> None:
    """See that so many workers can be, or raise UserError."""
    if workers < 1:
        raise UserError(f"The number of workers, {workers}, is not positive; give --workers 1 or more.")
    if workers > 1 and not config.tuning.trials:
        raise UserError("Workers are for tuning only; add --tune with the number of trials, or leave --workers out.")


def score(
    source: Source,
    data: ImageSet,
    rows: torch.Tensor | None,
    encoder: FeatureExtractor,
    *,
    draws: int,
    images: int,
    progress: Progress | None = None,
) -> GeneratorScores:
    """Scores of a source against the real images of some rows, or of all of them."""
    real = torch.from_numpy(data.images)
    return score_generator(
        lambda count, rng: source.draw(random_genes(source.space, count, rng)),
        real if rows is None else real[rows],
        encoder,
        labels=data.labels if data.labels is None or rows is None else data.labels[rows.numpy()],
        draws=draws,
        images=images,
        progress=progress,
    )


_Tuned = TrainGanConfig | CompareConfig  # either has gan, tuning and split


def tune_for(plan: Plan) -> None:
    """Search for the settings of the GAN of a comparison, where it asks for that; the GAN is then found in the cache.

    Raises:
        UserError, RunError: see :func:`tune_gan`.
    """
    if plan.config.tuning.trials:
        encoder = cell_store.prepare(plan.images, device=plan.device, progress=plan.progress).encoder
        context = FamilyContext(encoder, plan.device, plan.progress)
        path = gan_loader.gan_artifact(plan.split, plan.config.gan, plan.device).path
        tune_gan(plan.split, plan.config, context, path, workers=1)


def tune_gan(split: DataSplit, config: _Tuned, context: FamilyContext, path: Path, *, workers: int) -> None:
    """Search for the settings, and store the best trial's GAN under the cache key of the untuned settings.

    Args:
        path: the untuned GAN's place in the cache.
        workers: trials at once.

    Raises:
        UserError: the storage cannot be opened.
        RunError: it fails on the way, no trial came to an end, or a worker broke off again and again.
    """
    from diffgen.gan_training import tuning  # optuna is imported only for this
    from diffgen.gan_training.tuning_outcome import outcome

    if workers > 1:
        _on_workers(split.data, config, context, path, workers)
    work = _Work(split, config, context)
    about = work.about(path)
    study = tuning.run_trials(work.evaluate, config.gan, config.tuning, **about)
    work.keep(outcome(study, config.gan, about["images"]), path)


class _Work:
    """Trains, scores and keeps the GANs of a study's trials."""

    def __init__(self, split: DataSplit, config: _Tuned, context: FamilyContext) -> None:
        self._split, self._config, self._context = split, config, context
        self._rows, held_out = split.rows
        self._held_out = len(held_out) >= MIN_HELD_OUT
        self._against = held_out if self._held_out else self._rows
        self._images = len(self._rows) * (1 + len(TRANSFORMATIONS) * config.gan.augment)

    def about(self, path: Path) -> dict[str, Any]:
        """What a study is made from, and where it lies."""
        data, encoder = self._split.data, self._context.encoder
        return {
            "made_from": {"data": data.digest, "features": encoder.name, "conditional": data.labels is not None},
            "images": self._images,
            "folder": path.with_suffix(".trials"),
            "journal": path.with_suffix(".journal"),
            "progress": self._context.progress,
        }

    @cached_property
    def _monitor(self) -> KidMonitor:
        return make_monitor(self._split, self._context.encoder, KidMonitor)

    def evaluate(self, settings: GanConfig, place: Path, report: Callable[[int, float], None]) -> dict[str, float]:
        """See :class:`diffgen.gan_training.tuning.Evaluate`."""
        split, context, monitor = self._split, self._context, self._monitor
        every = steps_between_readings(settings, number_of_steps(settings, self._images))

        def after_measurement(measurement: Measurement) -> None:
            # trials of different length are compared at the same share of their training
            report(math.ceil(measurement.step / every) - 1, monitor.kid)

        trained = train_and_save(split, settings, context, place, monitor=monitor, after_measurement=after_measurement)
        source, _, _ = gan_loader.load(place, device=context.device)
        found = score(
            source,
            split.data,
            self._against,
            context.encoder,
            draws=_DRAWS,
            images=min(_IMAGES, len(split.data)),
            progress=context.progress,
        ).as_dict()
        scores = {name: found[name]["mean"] for name in ("kid", "fid", "precision", "recall", "density", "coverage")}
        # at few updates KID has preferred a generator of one picture to one of blurred ones
        return {**scores, "collapsed": float(trained.kept is not None and collapse(trained.kept) is not None)}

    def keep(self, found: Tuned, path: Path) -> None:
        """Put the best trial's GAN where the untuned one would lie."""
        if not found.checkpoint.is_file():
            self._context.progress.say("The best trial's GAN lies on another machine; it is trained again here.")
            train_and_save(self._split, found.config, self._context, found.checkpoint)
        best = next(trial for trial in found.trials if trial.number == found.best)
        there = read_header(path).get("tuning") if path.is_file() else None
        if there is not None and (there["study"], there["scores"]) == (found.study, best.scores):
            add_to_header(path, {"tuning": {**there, **found.as_dict()}})
            return
        write_whole(path, partial(shutil.copyfile, found.checkpoint))
        usual = asdict(self._config.gan)
        about = {
            **found.as_dict(),
            "settings": {name: value for name, value in asdict(found.config).items() if value != usual[name]},
            "scores": best.scores,
            "against": len(self._against),
            "held_out": self._held_out,
        }
        add_to_header(path, {"version": diffgen.__version__, "tuning": about})


# -- several workers -------------------------------------------------------------------------------------------------


def _on_workers(data: ImageSet, config: _Tuned, context: FamilyContext, path: Path, workers: int) -> None:
    """Run the trials in processes, each of which goes on until the study has as many as asked for.

    Raises:
        UserError: a worker cannot begin.
        RunError: one broke off again and again.
    """
    progress, attempts, given_up = context.progress, [0] * workers, list[str]()
    threads, pool, running = max(1, all_threads() // workers), Processes(), set(range(workers))

    def start(number: int) -> None:
        pool.start(number, run_trials, data, config, _device_of(number, context.device), path, threads)

    with progress.stage(f"Trying settings on {workers} workers", total=None):
        try:
            for number in range(workers):
                start(number)
            while running:
                for number, event in pool.events(_SECONDS_BETWEEN_LOOKS):
                    if not isinstance(event, Ended):
                        (progress.warn if event.warning else progress.say)(f"Worker {number + 1}: {event.text}")
                    elif event.failure is None:
                        running.discard(number)
                    elif event.failure.by_user:
                        raise UserError(f"Worker {number + 1} cannot work: {event.failure.text}")
                    else:
                        attempts[number] += 1
                        text = f"Worker {number + 1} broke off ({event.failure.text.rstrip('.')})"
                        if attempts[number] < _ATTEMPTS:
                            progress.warn(f"{text}; another one takes its place and goes on with its trial.")
                            start(number)
                        else:
                            running.discard(number)
                            given_up.append(text)
        finally:
            pool.close()  # a trial that still runs is taken up the next time
    if given_up:
        raise RunError(
            f"{given_up[-1]} {_ATTEMPTS} times; what was tried is kept, and the same command goes on with it."
        )


def run_trials(events: Listener, data: ImageSet, config: _Tuned, device: str, path: Path, threads: int) -> None:
    """Run trials in this process, side by side with others.

    Args:
        path: the untuned GAN's place in the cache.

    Raises:
        UserError, RunError: see :func:`diffgen.gan_training.tuning.run_trials`.
    """
    from diffgen.gan_training import tuning

    torch.set_num_threads(threads)
    progress, where = Progress(events), resolve_device(device)
    encoder = cell_store.prepare(data, device=where, progress=progress).encoder
    work = _Work(DataSplit(data, config.split), config, FamilyContext(encoder, where, progress))
    tuning.run_trials(work.evaluate, config.gan, config.tuning, **work.about(path))


def _device_of(number: int, device: torch.device) -> str:
    """The device of a worker: where several GPUs are, each has its turn, unless one of them was named."""
    if str(device) == "cuda":
        return f"cuda:{number % torch.cuda.device_count()}"
    return str(device)
