"""Search for the settings of a GAN with Optuna: one objective, FID and KID of the finished GAN together.

The sampler is TPE (Bergstra et al. 2011), the pruner the median rule: a trial ends when its KID at some measurement
of the collapse guard is worse than that of half of the trials before at the same share of their training. One
objective (:func:`diffgen.gan_training.tuning_outcome.objective`), because Optuna prunes in such studies only, and
because two would leave open which GAN is kept. Everything is stored
after every step, so that a killed study goes on, and several processes can work on one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import optuna
import torch
from optuna.exceptions import OptunaError, StorageInternalError
from optuna.pruners import MedianPruner
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState
from safetensors import SafetensorError

from diffgen.config import GanConfig, TuningConfig
from diffgen.errors import RunError, UserError
from diffgen.events import Progress
from diffgen.gan_training.scores import objective
from diffgen.gan_training.study_storage import open_storage
from diffgen.gan_training.tuning_outcome import CHECKPOINT, Trial, finished, own_values, quiet, rank, suggest
from diffgen.runs.lock import RunLock, check_free

# a trial that has said nothing of itself for so long was killed before it began
_SECONDS_TO_BEGIN = 60


def take_up(study: optuna.Study, progress: Progress) -> None:
    """Give trials up that were broken off on this machine, and have each of them run again."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING, TrialState.FAIL)):
        if trial.state == TrialState.RUNNING:
            if not _abandoned(trial):
                continue
            try:
                study.tell(trial.number, state=TrialState.FAIL)
            except ValueError:  # another process did so in this moment, and has it run again
                continue
        elif "error" in trial.user_attrs or _is_replaced(study, trial):
            continue
        place = {"folder": trial.user_attrs["folder"]} if "folder" in trial.user_attrs else {}
        study.enqueue_trial(trial.params, user_attrs={**place, "instead_of": trial.number})
        progress.say(f"Trial {trial.number + 1} was broken off; it runs again.")


def _is_replaced(study: optuna.Study, trial: FrozenTrial) -> bool:
    """Whether another trial runs, or waits to run, in place of a failed one; databases see to that themselves."""
    return any(
        trial.number in (other.user_attrs.get("instead_of"), other.system_attrs.get("failed_trial"))
        for other in study.get_trials(deepcopy=False)
    )


def _abandoned(trial: FrozenTrial) -> bool:
    """Whether a trial that counts as running was killed; of one on another machine this cannot be seen."""
    if "host" not in trial.user_attrs:
        began = trial.datetime_start
        return began is not None and datetime.now() - began > timedelta(seconds=_SECONDS_TO_BEGIN)
    if trial.user_attrs["host"] != socket.gethostname():
        return False
    try:
        check_free(Path(trial.user_attrs["folder"]))
    except UserError:
        return False
    return True


class SeededByTrial(BaseSampler):
    """TPE whose random numbers follow from the seed and the trial's number.

    With one seed for the whole study, a resumed one and every other process would suggest what was already tried.
    """

    def __init__(self, seed: int, startup: int) -> None:
        self._seed, self._startup = seed, startup
        self._tpe = TPESampler(seed=seed, n_startup_trials=startup)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        digest = hashlib.sha256(f"{self._seed},{trial.number}".encode()).digest()
        self._tpe = TPESampler(seed=int.from_bytes(digest[:4], "big"), n_startup_trials=self._startup)
        self._tpe.before_trial(study, trial)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, Any]:
        return self._tpe.infer_relative_search_space(study, trial)

    def sample_relative(self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, Any]) -> dict[str, Any]:
        return self._tpe.sample_relative(study, trial, search_space)

    def sample_independent(self, study: optuna.Study, trial: FrozenTrial, param_name: str, distribution: Any) -> Any:
        return self._tpe.sample_independent(study, trial, param_name, distribution)


# Trials of one study share objective and space; another meaning of either needs another number here.
_FORMAT = "diffgen-gan-study-4"
_STARTUP = 4  # trials at most that are drawn at random before the sampler learns from them, and before any is pruned
_WARM_UP = 2  # measurements at most that a trial gets before it may be pruned
_PATIENCE = 120.0  # seconds; another process begins its trial in much less


class Evaluate(Protocol):
    """Trains the GAN of one trial."""

    def __call__(self, config: GanConfig, path: Path, report: Callable[[int, float], None], /) -> dict[str, float]:
        """Train, write the checkpoint ``path``, score.

        Args:
            path: checkpoint to write; training that was left unfinished beside it is taken up.
            report: to be told the number of every measurement and its KID; raises to prune the trial.

        Returns:
            scores, ``fid`` and ``kid`` among them, and ``collapsed``: 1 for a GAN that the guard finds no good.

        Raises:
            RunError: the training diverged; no other trial is touched by it.
        """
        ...


def run_trials(
    evaluate: Evaluate,
    base: GanConfig,
    space: TuningConfig,
    *,
    made_from: dict[str, Any],
    images: int,
    folder: Path,
    journal: Path,
    progress: Progress | None = None,
) -> optuna.Study:
    """Run trials until the study has as many as asked for, or the time for them is up; those that it has are counted.

    However short the time, one trial comes to its end.

    Other processes may still work on the last ones; :func:`diffgen.gan_training.tuning_outcome.outcome` says what came
    of all.

    Args:
        base: the settings that are not searched for; the first trial has all of them.
        space: how many trials, and where the study is kept.
        made_from: what the objective depends on besides ``base`` and ``space`` (data, features); JSON values.
        images: training images, transformations included.
        folder: where the trials keep their GANs; only the best one's is kept.
        journal: file of the study when ``space.storage`` names none.
        progress: is told the outcome of every trial.

    Raises:
        UserError: the storage cannot be opened.
        RunError: the storage fails on the way.
    """
    progress = progress or Progress()
    study = _open(base, space, made_from, journal)
    # among the processes of this machine one at a time looks at what is missing and begins it
    turn = RunLock(folder, what="folder of the trials", option="another DIFFGEN_CACHE", patience=_PATIENCE)
    with turn:
        take_up(study, progress)
        if not study.trials:
            study.enqueue_trial(own_values(base), skip_if_exists=True)
    work = _Work(study, evaluate, base, space, images, folder, turn, progress)
    with quiet():
        while _begins(study, space, turn, work):
            work.tell()
    return study


def _begins(study: optuna.Study, space: TuningConfig, turn: RunLock, work: _Work) -> bool:
    """Run a trial, unless there are as many as asked for. RunError if the storage fails."""
    with turn:  # until the trial has begun
        running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        if len(finished(study)) + len(running) >= space.trials or work.late:
            return False
        try:
            study.optimize(work, n_trials=1, catch=(_TrialFailed,))
        except (OSError, StorageInternalError, json.JSONDecodeError) as error:
            raise RunError(
                f"The study broke off ({error}); repair that, then run the same command to continue."
            ) from error
    return True


# -- the trials ------------------------------------------------------------------------------------------------------


class _TrialFailed(Exception):
    """The settings of a trial are no good: its GAN diverged, or does not fit into memory."""


class _Work:
    """The objective, as Optuna calls it."""

    def __init__(
        self,
        study: optuna.Study,
        evaluate: Evaluate,
        base: GanConfig,
        space: TuningConfig,
        images: int,
        folder: Path,
        turn: RunLock,
        progress: Progress,
    ) -> None:
        self._study, self._evaluate, self._base, self._space = study, evaluate, base, space
        self._images, self._folder, self._turn, self._progress = images, folder, turn, progress
        self._number, self._began = -1, time.monotonic()
        # a study in another storage has the same name when it searches for the same
        digest = hashlib.sha256(f"{study.study_name},{space.storage}".encode()).hexdigest()
        self._prefix = digest[:16]

    @property
    def late(self) -> bool:
        """Whether the time for tuning is used up, and there is a GAN to keep."""
        limit = self._space.seconds
        ended = limit is not None and time.monotonic() - self._began > limit
        return ended and any(trial.scores for trial in finished(self._study))

    def __call__(self, trial: optuna.Trial) -> float:
        self._turn.release()  # the trial counts as under way
        self._number = trial.number
        config = suggest(trial, self._base, images=self._images)
        # a trial that stands in for one that was broken off works on in its folder
        place = Path(trial.user_attrs.get("folder", self._folder / f"{self._prefix}-{trial.number}"))
        try:
            with RunLock(place):
                # said only now: whoever reads it may look at the lock
                trial.set_user_attr("folder", str(place.absolute()))
                trial.set_user_attr("host", socket.gethostname())
                scores = self._evaluate(config, place / CHECKPOINT, partial(self._report, trial))
        except (RunError, torch.OutOfMemoryError) as error:
            if isinstance(error.__cause__, OSError | SafetensorError):
                raise  # the disk is full or gone: no fault of these settings
            trial.set_user_attr("error", str(error))
            _remove(place)
            raise _TrialFailed from error
        except optuna.TrialPruned:
            _remove(place)
            raise
        for name, value in scores.items():
            trial.set_user_attr(name, value)
        return objective(scores)

    def _report(self, trial: optuna.Trial, number: int, kid: float) -> None:
        trial.report(kid, number)
        if self.late or trial.should_prune():
            raise optuna.TrialPruned

    def tell(self) -> None:
        """Say how the trial ended, and remove the GANs of all but the best."""
        trials = {trial.number: trial for trial in finished(self._study)}
        last = trials.get(self._number)
        if last is None:  # its heartbeat had stopped, and another process gave it up
            return
        best = min((trial for trial in trials.values() if trial.objective is not None), key=rank, default=None)
        said = f"Trial {last.number + 1} ({len(trials)} of {self._space.trials} finished, {last.seconds:.0f} s): "
        said += _in_words(last) if last.scores else last.state
        if last.error:
            said += f" ({last.error})"
        if best is not None:
            said += f"; best is trial {best.number + 1} with {_in_words(best)}"
        self._progress.say(said + ".")
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            if best is None or trial.number != best.number:
                _remove(Path(trial.user_attrs["folder"]))


def _in_words(trial: Trial) -> str:
    return f"FID {trial.scores['fid']:.2f} and KID {trial.scores['kid']:.5f}"


def _remove(place: Path) -> None:
    """Remove what a trial left; a folder of another machine is not here."""
    checkpoint = place / CHECKPOINT
    for file in (checkpoint, checkpoint.with_suffix(".unfinished")):
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not there, or locked; an empty folder harms nobody
        place.rmdir()


def _open(base: GanConfig, space: TuningConfig, made_from: dict[str, Any], journal: Path) -> optuna.Study:
    key = repr([_FORMAT, *(sorted(each.items()) for each in (made_from, asdict(base)))])
    startup = max(1, min(_STARTUP, space.trials // 3))
    with quiet():
        storage = open_storage(space.storage, journal)
        try:
            return optuna.create_study(
                storage=storage,
                study_name=f"gan-{hashlib.sha256(key.encode()).hexdigest()[:16]}",
                load_if_exists=True,
                direction="minimize",
                sampler=SeededByTrial(base.seed, startup),
                pruner=MedianPruner(n_startup_trials=startup, n_warmup_steps=min(_WARM_UP, base.monitor_checks // 2)),
            )
        except (OSError, OptunaError, ValueError, KeyError) as error:
            place = space.storage or journal
            raise UserError(f"The study in {place} cannot be opened ({error}); name another storage.") from error
