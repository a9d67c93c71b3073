"""Reads the TOML files that people write: configurations and sidecars."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from diffgen.errors import UserError
from diffgen.runs.opening import open_regular

_LARGEST = 4 << 20  # bytes; a file that names every setting has some kilobytes


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The values in a TOML file, with or without the byte order mark that some editors put in front.

    Args:
        path: the file.
        what: what the file is, for the message: "The sidecar", say.

    Raises:
        UserError: the file cannot be read, is larger than 4 MiB, or is not TOML.
    """
    try:
        with open_regular(path) as file:
            contents = file.read(_LARGEST + 1)
        if len(contents) > _LARGEST:
            raise UserError(f"{what} {path} has more than {_LARGEST >> 20} MiB; repair or remove it.")
        return tomllib.loads(contents.decode("utf-8-sig"))
    except OSError as error:
        advice = "check its permissions" if isinstance(error, PermissionError) else "check the path"
        raise UserError(f"{what} {path} cannot be read ({error.strerror}); {advice}.") from error
    except RecursionError as error:
        raise UserError(f"{what} {path} is nested too deeply; repair or remove it.") from error
    except ValueError as error:
        raise UserError(f"{what} {path} is not valid TOML ({error}); repair or remove it.") from error
