"""Finds the trials of a study that were broken off on this machine, and has each of them run again."""

from __future__ import annotations

import socket
from datetime import datetime, timedelta
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial, TrialState

from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.runs.lock import check_free

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


def under_way(study: optuna.Study) -> int:
    return len(study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)))
