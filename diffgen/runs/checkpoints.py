"""The two newest checkpoints of a search in its run folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from diffgen.errors import RunError
from diffgen.runs.arrays import read_arrays, write_arrays
from diffgen.runs.creation import UNREADABLE
from diffgen.runs.folder import RunFolder

_NEWEST, _PREVIOUS = "checkpoint.npz", "checkpoint.previous.npz"


def write_checkpoint(folder: RunFolder, state: Mapping[str, Any]) -> None:
    """Put a new checkpoint of the search in front of the one before, which is kept."""
    write_arrays(folder.file(_NEWEST), state, keep_as=folder.file(_PREVIOUS))


def has_checkpoint(folder: RunFolder) -> bool:
    """Whether there is a newest checkpoint, damaged or not."""
    return folder.file(_NEWEST).exists()


def read_checkpoint(folder: RunFolder) -> dict[str, Any] | None:
    """The newest state of the search, or None when there is none that can be read."""
    try:
        return read_arrays(folder.file(_NEWEST))
    except UNREADABLE:
        return None


def drop_checkpoint(folder: RunFolder) -> bool:
    """Put the checkpoint before in the place of the newest; False when there is none before."""
    newest, previous = folder.file(_NEWEST), folder.file(_PREVIOUS)
    try:
        if previous.exists():
            os.replace(previous, newest)
            return True
        newest.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(f"The folder {folder.path} cannot be changed ({error.strerror}); see who owns it.") from error
    return False
