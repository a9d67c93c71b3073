"""Search for the settings of a GAN with Optuna: one objective, the kernel inception distance of the finished GAN.

The sampler is TPE (Bergstra et al. 2011), the pruner the median rule: a trial ends when its KID at some reading of the
collapse guard is worse than that of half of the trials before at the same share of their training. One objective,
because Optuna prunes in such studies only; the Fréchet distance is kept beside it. Everything is stored after every
step, so that a killed study goes on, and several processes can work on one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import optuna
import torch
from optuna.exceptions import OptunaError, StorageInternalError
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.pruners import MedianPruner
from optuna.trial import FixedTrial, FrozenTrial, TrialState
from safetensors import SafetensorError

from diffgen.config import GanConfig, TuningConfig
from diffgen.errors import RunError, UserError
from diffgen.events import Progress
from diffgen.gan_training.sampler import SeededByTrial
from diffgen.gan_training.study_storage import open_storage
from diffgen.gan_training.tuning_space import check_space, own_values, suggest
from diffgen.runs.lock import RunLock, check_free

# Trials of one study share objective and space; another meaning of either needs another number here.
_FORMAT = "diffgen-gan-study-1"
CHECKPOINT = "gan.safetensors"  # in the folder of a trial
_FEWEST_FOR_IMPORTANCE = 4
# a trial that has said nothing of itself for so long was killed before it began
_SECONDS_TO_BEGIN = 60


class Evaluate(Protocol):
    """Trains the GAN of one trial."""

    def __call__(self, config: GanConfig, path: Path, report: Callable[[int, float], None], /) -> dict[str, float]:
        """Train, write the checkpoint ``path``, score.

        Args:
            config: settings of the trial.
            path: checkpoint to write; training that was left unfinished beside it is taken up.
            report: to be told the number of every reading and its KID; raises to prune the trial.

        Returns:
            scores, ``kid`` among them, and ``collapsed``: 1 for a GAN that the collapse guard finds no good.

        Raises:
            RunError: the training diverged; no other trial is touched by it.
        """
        ...


@dataclass(frozen=True)
class Trial:
    """One trial of a study.

    Attributes:
        number: in the study.
        state: "complete", "pruned" or "failed"; one that is under way or was broken off is none of these and not here.
        settings: field of GanConfig -> value.
        scores: name -> value, of a complete trial.
        readings: number of the reading -> KID.
        seconds: wall-clock time.
        error: why it failed, or None.
    """

    number: int
    state: str
    settings: dict[str, Any]
    scores: dict[str, float]
    readings: dict[int, float]
    seconds: float
    error: str | None = None

    @property
    def kid(self) -> float | None:
        """The objective."""
        return self.scores.get("kid")


@dataclass(frozen=True)
class Tuned:
    """What a study has come to.

    Attributes:
        study: its name in the storage.
        trials: finished ones, in their order.
        best: number of the complete trial with the lowest KID, of those that have not collapsed if there are any.
        importance: setting -> share of the variation in KID that it explains (PED-ANOVA, Watanabe et al. 2023); empty
            when there are too few complete trials to say.
        config: settings of the best trial.
        checkpoint: its GAN; the file is missing when another machine trained it.
    """

    study: str
    trials: tuple[Trial, ...]
    best: int
    importance: dict[str, float]
    config: GanConfig
    checkpoint: Path

    def as_dict(self) -> dict[str, Any]:
        """JSON values, without the path."""
        return {
            "study": self.study,
            "best": self.best,
            "importance": self.importance,
            "trials": [asdict(trial) for trial in self.trials],
        }


def tune(
    evaluate: Evaluate,
    base: GanConfig,
    space: TuningConfig,
    *,
    made_from: dict[str, Any],
    images: int,
    folder: Path,
    journal: Path,
    progress: Progress | None = None,
) -> Tuned:
    """Run trials until the study has as many as asked for; those that it already has are counted.

    Args:
        evaluate: trains the GAN of one trial.
        base: the settings that are not searched for; the first trial has all of them.
        space: the space and the number of trials.
        made_from: what the objective depends on besides ``base`` and ``space`` (data, features); JSON values.
        images: training images, transformations included.
        folder: where the trials keep their GANs; only the best one's is kept.
        journal: file of the study when ``space.storage`` names none.
        progress: is told the outcome of every trial.

    Raises:
        UserError: the storage cannot be opened, or the space is empty.
        RunError: the storage fails on the way, or no trial came to an end.
    """
    check_space(space)
    progress = progress or Progress()
    study = _open(base, space, made_from, journal)
    _take_up(study, progress)
    if not study.trials:
        study.enqueue_trial(own_values(base), skip_if_exists=True)
    work = _Work(study, evaluate, base, space, images, folder, progress)
    with _quiet():
        while len(finished(study)) + _under_way(study) < space.trials:
            try:
                study.optimize(work, n_trials=1, catch=(_TrialFailed,))
            except (OSError, StorageInternalError, json.JSONDecodeError) as error:
                raise RunError(f"The study broke off ({error}); mend that, and the same command goes on.") from error
            work.tell()
    return _outcome(study, base, space, images)


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
        progress: Progress,
    ) -> None:
        self._study, self._evaluate, self._base, self._space = study, evaluate, base, space
        self._images, self._folder, self._progress = images, folder, progress
        self._number = -1
        # a study in another storage has the same name when it searches for the same
        digest = hashlib.sha256(f"{study.study_name},{space.storage}".encode()).hexdigest()
        self._prefix = digest[:16]

    def __call__(self, trial: optuna.Trial) -> float:
        self._number = trial.number
        config = suggest(trial, self._base, self._space, images=self._images)
        # a trial that stands in for one that was broken off works on in its folder
        place = Path(trial.user_attrs.get("folder", self._folder / f"{self._prefix}-{trial.number}"))
        try:
            with RunLock(place):
                # said only now: whoever reads it may look at the lock
                trial.set_user_attr("folder", str(place.absolute()))
                trial.set_user_attr("host", socket.gethostname())
                scores = self._evaluate(config, place / CHECKPOINT, lambda number, kid: _report(trial, number, kid))
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
        return scores["kid"]

    def tell(self) -> None:
        """Say how the trial ended, and remove the GANs of all but the best."""
        trials = {trial.number: trial for trial in finished(self._study)}
        last = trials.get(self._number)
        if last is None:  # its heartbeat had stopped, and another process gave it up
            return
        best = min((trial for trial in trials.values() if trial.kid is not None), key=_rank, default=None)
        said = f"Trial {last.number + 1} ({len(trials)} of {self._space.trials} finished, {last.seconds:.0f} s): "
        said += f"KID {last.kid:.5f}, FID {last.scores['fid']:.2f}" if last.kid is not None else last.state
        if last.error:
            said += f" ({last.error})"
        if best is not None:
            said += f"; best is trial {best.number + 1} with KID {best.kid:.5f}"
        self._progress.say(said + ".")
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            if best is None or trial.number != best.number:
                _remove(Path(trial.user_attrs["folder"]))


def _report(trial: optuna.Trial, number: int, kid: float) -> None:
    trial.report(kid, number)
    if trial.should_prune():
        raise optuna.TrialPruned


def _remove(place: Path) -> None:
    """Remove what a trial left; a folder of another machine is not here."""
    checkpoint = place / CHECKPOINT
    for file in (checkpoint, checkpoint.with_suffix(".unfinished")):
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not there, or locked; an empty folder harms nobody
        place.rmdir()


def _open(base: GanConfig, space: TuningConfig, made_from: dict[str, Any], journal: Path) -> optuna.Study:
    # the storage, and how many trials there shall be, do not change what a trial means
    meaning = {**asdict(space), "storage": None, "trials": None, "startup": None, "warmup": None}
    key = repr([_FORMAT, sorted(made_from.items()), sorted(asdict(base).items()), sorted(meaning.items())])
    with _quiet():
        storage = open_storage(space.storage, journal)
        try:
            return optuna.create_study(
                storage=storage,
                study_name=f"gan-{hashlib.sha256(key.encode()).hexdigest()[:16]}",
                load_if_exists=True,
                direction="minimize",
                sampler=SeededByTrial(base.seed, space.startup),
                pruner=MedianPruner(n_startup_trials=space.startup, n_warmup_steps=space.warmup),
            )
        except (OSError, OptunaError, ValueError, KeyError) as error:
            place = space.storage or journal
            raise UserError(f"The study in {place} cannot be opened ({error}); name another storage.") from error


def _take_up(study: optuna.Study, progress: Progress) -> None:
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


def _under_way(study: optuna.Study) -> int:
    return len(study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)))


# -- the outcome -----------------------------------------------------------------------------------------------------

_STATES = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
_OURS = ("folder", "host", "error", "instead_of")


def finished(study: optuna.Study) -> tuple[Trial, ...]:
    """The trials that came to an end of their own: complete, pruned or diverged, but not broken off."""
    return tuple(
        Trial(
            number=trial.number,
            state=_STATES[trial.state],
            settings=dict(trial.params),
            scores={name: value for name, value in trial.user_attrs.items() if name not in _OURS}
            if trial.state == TrialState.COMPLETE
            else {},
            readings=dict(trial.intermediate_values),
            seconds=0.0 if trial.duration is None else trial.duration.total_seconds(),
            error=trial.user_attrs.get("error"),
        )
        for trial in study.get_trials(deepcopy=False, states=tuple(_STATES))
        if trial.state != TrialState.FAIL or "error" in trial.user_attrs
    )


def _rank(trial: Trial) -> tuple[bool, float, int]:
    """By KID, but a GAN that the collapse guard finds no good comes after all others."""
    assert trial.kid is not None
    return bool(trial.scores.get("collapsed")), trial.kid, trial.number


def _outcome(study: optuna.Study, base: GanConfig, space: TuningConfig, images: int) -> Tuned:
    trials = finished(study)
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not complete:
        reasons = [trial.error for trial in trials if trial.error]
        raise RunError(
            f"None of the {len(trials)} trials has finished yet"
            + (f"; the last one failed: {reasons[-1]}" if reasons else "; others may still be under way.")
        )
    number = min((trial for trial in trials if trial.kid is not None), key=_rank).number
    best = next(trial for trial in complete if trial.number == number)
    importance: dict[str, float] = {}
    if len(complete) >= _FEWEST_FOR_IMPORTANCE:
        with _quiet():
            importance = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    return Tuned(
        study=study.study_name,
        trials=trials,
        best=best.number,
        importance={name: float(value) for name, value in importance.items()},
        config=suggest(FixedTrial(best.params), base, space, images=images),
        checkpoint=Path(best.user_attrs["folder"]) / CHECKPOINT,
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Optuna says nothing on the screen: what there is to say, the progress reporter says."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
