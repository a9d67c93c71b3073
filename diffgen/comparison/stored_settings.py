"""The settings that a run was made with, read from its folder."""

from __future__ import annotations

from typing import Any

from diffgen.config import CompareConfig, from_dict
from diffgen.config.migration import migrated
from diffgen.errors import UserError
from diffgen.runs.folder import RunFolder


def stored_settings(folder: RunFolder) -> CompareConfig:
    """The settings of a run; checked like those that a user gives, for the folder may come from a stranger.

    Raises:
        UserError: config.toml is missing or damaged, or holds a value that cannot be.
    """
    folder.check_description()
    values: dict[str, Any] = folder.config()
    try:
        config: CompareConfig = from_dict(CompareConfig, migrated(values))
    except UserError as error:
        raise UserError(
            f"The settings {folder.path / 'config.toml'} cannot be used ({str(error).rstrip('.')}); the run folder is "
            "damaged."
        ) from error
    return config
