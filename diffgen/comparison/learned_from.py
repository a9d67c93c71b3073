"""The answers of people that the filter ``learned`` learns from: good enough before a run, the same when it goes on."""

from __future__ import annotations

from pathlib import Path

from diffgen.config import CompareConfig
from diffgen.errors import UserError
from diffgen.filters import check_enough
from diffgen.labels.answers import read_answers
from diffgen.runs.folder import RunFolder


def answers_digest(config: CompareConfig, image_shape: tuple[int, int, int]) -> str | None:
    """Tells the answers that the filter learned learns from, from all others; None where it is no filter of the run.

    Raises:
        UserError: they cannot be read, are about pictures of another shape than (C, H, W), or are too few.
    """
    path = config.filters.learned.answers
    if path is None or "learned" not in (config.filters.names or ()):
        return None
    found = read_answers(Path(path), image_shape)
    check_enough(found.valid)
    return found.digest


def check_same_answers(config: CompareConfig, folder: RunFolder, image_shape: tuple[int, int, int]) -> None:
    """See that the answers are those that a run was started with.

    Raises:
        UserError: they are not, or see :func:`answers_digest`.
    """
    before = folder.manifest.get("learned_from")  # runs of earlier versions do not say it
    if before is not None and answers_digest(config, image_shape) != before:
        raise UserError(
            f"The answers {config.filters.learned.answers}, which the filter learned learns from, have changed since "
            f"the run {folder.path} was started; put the old ones back, or start a new run."
        )
