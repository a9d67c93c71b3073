"""What a worker says of an error that ends it."""

from __future__ import annotations

import traceback

from diffgen.errors import DiffgenError, UserError
from diffgen.islands.messages import Failed
from diffgen.models.wording import reason


def failed(error: Exception) -> Failed:
    """The error as the driver hears of it; of one that nobody meant, where it happened too."""
    if isinstance(error, UserError):
        return Failed(str(error), by_user=True)
    if isinstance(error, DiffgenError):
        return Failed(str(error))
    frames = traceback.extract_tb(error.__traceback__)
    return Failed(reason(error) + "".join(f" (at {each.filename}:{each.lineno})" for each in frames[-1:]))
