"""Reads the finished trials of a study of a GAN's settings, and finds the best of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import optuna
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import BaseTrial, FixedTrial, TrialState

from diffgen.config import GanConfig
from diffgen.errors import RunError
from diffgen.gan_training.scores import objective
from diffgen.gan_training.trainer import number_of_steps


def suggest(trial: BaseTrial, base: GanConfig, *, images: int) -> GanConfig:
    """The settings of a trial: around those of the base, which the first trial has.

    Args:
        trial: of the study.
        base: the settings that are searched around.
        images: training images, transformations included; the number of updates follows from it.
    """
    own = own_values(base)

    def between(name: str, low: float, high: float, *, log: bool = False) -> float:
        return trial.suggest_float(name, min(low, own[name]), max(high, own[name]), log=log)

    def one_of(name: str, *shares: float) -> int:
        return trial.suggest_categorical(
            name, sorted({own[name], *(max(2, round(own[name] * each)) for each in shares)})
        )

    changed: dict[str, Any] = {
        name: between(name, own[name] / 8, own[name] * 5, log=True)
        for name in ("learning_rate_generator", "learning_rate_discriminator")
    }
    changed["batch_size"] = one_of("batch_size", 0.5, 2)
    changed["width"] = one_of("width", 2 / 3, 4 / 3, 2)
    changed["latent_dim"] = one_of("latent_dim", 0.5, 1.5)
    averaging = between("averaging", *_AVERAGING, log=True)
    changed["ema_decay"] = base.ema_decay if averaging == own["averaging"] else 1 - averaging
    if base.augment:
        changed["transformed"] = between("transformed", *_TRANSFORMED)
    asked = replace(base, **changed)
    length = between("length", _SHORTEST, 1.0)
    # the batch size alone changes how many updates a schedule has; only a shorter one is written down as a number
    return asked if length == 1 else replace(asked, steps=max(1, round(length * number_of_steps(asked, images))))


def own_values(base: GanConfig) -> dict[str, Any]:
    """The point of the space at which a trial has the base's settings."""
    names = ["learning_rate_generator", "learning_rate_discriminator", "batch_size", "width", "latent_dim"]
    values = {name: getattr(base, name) for name in names}
    values |= {"averaging": 1 - base.ema_decay, "length": 1.0}
    return values | ({"transformed": base.transformed} if base.augment else {})


CHECKPOINT = "gan.safetensors"  # in the folder of a trial
_MIN_FOR_IMPORTANCE = 4
_AVERAGING = (5e-4, 1e-2)  # 1 - ema_decay, least and most
_TRANSFORMED = (0.0, 0.8)  # share of the images of a batch
_SHORTEST = 0.5  # share of the schedule's updates
_STATES = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
_OURS = ("folder", "host", "error", "instead_of")


@dataclass(frozen=True)
class Trial:
    """One trial of a study.

    Attributes:
        number: in the study.
        state: "complete", "pruned" or "failed"; one that is under way or was broken off is none of these and not here.
        settings: field of GanConfig -> value.
        scores: name -> value, of a complete trial.
        readings: number of the measurement -> KID.
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
    def objective(self) -> float | None:
        """What is minimized, or None: it did not come to an end."""
        return objective(self.scores) if self.scores else None


@dataclass(frozen=True)
class Tuned:
    """What a study has come to.

    Attributes:
        study: its name in the storage.
        trials: finished ones, in their order.
        best: number of the complete trial with the lowest objective, of those that have not collapsed if there are any.
        importance: setting -> share of the variation in the objective that it explains (PED-ANOVA, Watanabe et al.
            2023); empty when there are too few complete trials to say.
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


def rank(trial: Trial) -> tuple[bool, float, int]:
    """By the objective, but a GAN that the collapse guard finds no good comes after all others."""
    assert trial.objective is not None
    return bool(trial.scores.get("collapsed")), trial.objective, trial.number


def outcome(study: optuna.Study, base: GanConfig, images: int) -> Tuned:
    """What came of a study; see :func:`diffgen.gan_training.tuning.run_trials` for the arguments.

    Raises:
        RunError: no trial came to an end.
    """
    trials = finished(study)
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not complete:
        reasons = [trial.error for trial in trials if trial.error]
        raise RunError(
            f"None of the {len(trials)} trials has finished yet"
            + (f"; the last one failed: {reasons[-1]}" if reasons else "; others may still be under way.")
        )
    number = min((trial for trial in trials if trial.objective is not None), key=rank).number
    best = next(trial for trial in complete if trial.number == number)
    importance: dict[str, float] = {}
    if len(complete) >= _MIN_FOR_IMPORTANCE:
        with quiet():
            importance = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    return Tuned(
        study=study.study_name,
        trials=trials,
        best=best.number,
        importance={name: float(value) for name, value in importance.items()},
        config=suggest(FixedTrial(best.params), base, images=images),
        checkpoint=Path(best.user_attrs["folder"]) / CHECKPOINT,
    )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Optuna says nothing on the screen: what there is to say, the progress reporter says."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
