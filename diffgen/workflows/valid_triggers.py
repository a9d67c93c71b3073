"""The valid triggers of a finished run, as labels and selector want them."""

from __future__ import annotations

from dataclasses import replace

from diffgen.errors import UserError
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import read_finished
from diffgen.runs.triggers import TriggerTable


def read_valid_triggers(folder: RunFolder, triggers: TriggerTable | None = None) -> TriggerTable:
    """The confirmed triggers that no filter rejected, with the names of the K classes.

    Their images are those of ``triggers``, so that these are read once for both.

    Args:
        folder: of a run that came to its end.
        triggers: all of the run with verdicts where they were read before, or None.

    Raises:
        UserError: the run did not come to its end, is damaged, or has no valid trigger.
    """
    with folder.reading():
        names = read_finished(folder).class_names
        triggers = folder.read_judged() if triggers is None else triggers
        found = triggers[triggers.valid]
        if len(found) == 0:
            raise UserError(
                f"The run {folder.path} has no valid trigger, so there is nothing to label or to learn from; search "
                "longer or with other filters."
            )
        if found.probabilities.shape[2] != len(names) if found.classes is None else found.classes.max() >= len(names):
            raise ValueError("the probabilities are of other classes than those that are named")
        return replace(found, class_names=names)
