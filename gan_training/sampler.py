"""Seeds Optuna's sampler by trial, so that several processes and resumed studies draw alike."""

from __future__ import annotations

import hashlib
from typing import Any

import optuna
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import FrozenTrial


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
